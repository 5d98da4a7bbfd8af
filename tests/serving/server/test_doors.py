"""What every request passes: keys, ids, CORS, paths; the ways in: TCP, Unix socket, TLS, root path, pipelining."""

from __future__ import annotations

import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from serving_http import Script, content, events_of, post, read_response, serving
from toolgrammar_serving.server import Tls

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


KEYS = [
    ("Authorization: Bearer first", True),
    ("authorization: bearer second", True),
    ("X-API-Key: second", True),
    ("Authorization: Bearer third", False),
    ("Authorization: Bearer", False),
    ("Authorization: Basic first", False),
    ("X-API-Key: first ", True),
    ("X-API-Key: firs", False),
    ("X-Nothing: first", False),
]


@pytest.mark.parametrize(("header", "admitted"), KEYS)
def test_keys_guard_the_data(header: str, admitted: bool) -> None:
    with serving(Script([content("a")]), api_keys=("first", "second")) as live:
        for path, body in (
            (CHAT, BODY),
            ("/v1/completions", {"prompt": "x"}),
            ("/tokenize", {"prompt": "x"}),
            ("/detokenize", {"tokens": [97]}),
        ):
            with live.send(post(path, body, header)) as connection:
                status, headers, data = read_response(connection)
            assert status == (200 if admitted else 401), path
            if not admitted:
                assert msgspec.json.decode(data)["error"]["code"] == "invalid_api_key"
                assert headers["www-authenticate"] == "Bearer"
        reached = len(live.stage.requests)
    assert reached == (2 if admitted else 0)


def test_what_tells_nothing_of_requests_needs_no_key() -> None:
    with serving(Script([content("a")]), api_keys=("k",)) as live, live.send(b"") as connection:
        for path, status in (
            ("/health", 200),
            ("/live", 200),
            ("/ready", 200),
            ("/ping", 200),
            ("/version", 200),
            ("/load", 200),
            ("/metrics", 200),
            ("/openapi.json", 200),
            ("/v1/models", 401),
            ("/anything", 401),
        ):
            connection.sendall(get(path))
            assert read_response(connection)[0] == status, path


def test_request_ids_are_the_client_s_if_fit() -> None:
    with serving(Script([content("a")])) as live, live.send(b"") as connection:
        found = []
        for header in ("X-Request-Id: my-id.1", "X-Request-Id: a b", f"X-Request-Id: {'x' * 300}", "A: b"):
            connection.sendall(post(CHAT, BODY, header))
            _, headers, data = read_response(connection)
            found.append((headers["x-request-id"], msgspec.json.decode(data)["id"]))
    assert found[0] == ("my-id.1", "chatcmpl-my-id.1")
    assert len({id_ for id_, _ in found}) == 4
    assert all(len(id_) == 24 and response_id == f"chatcmpl-{id_}" for id_, response_id in found[1:])


def test_cors_is_off_unless_asked_for() -> None:
    asking = ("Origin: https://a.example", "Access-Control-Request-Method: POST")
    with serving(Script([content("a")]), api_keys=("k",)) as live, live.send(b"") as connection:
        connection.sendall(get(CHAT, *asking, method="OPTIONS"))
        status, headers, _ = read_response(connection)
    assert status == 405 and "access-control-allow-origin" not in headers
    options: Any = {"allowed_origins": ("https://a.example",), "api_keys": ("k",)}
    with serving(Script([content("a", "b")]), **options) as live, live.send(b"") as connection:
        connection.sendall(get(CHAT, *asking, method="OPTIONS"))
        status, headers, _ = read_response(connection)
        assert (status, headers["access-control-allow-origin"]) == (200, "https://a.example")
        connection.sendall(post(CHAT, {**BODY, "stream": True}, asking[0], "X-API-Key: k"))
        status, headers, data = read_response(connection)
        assert (status, headers["access-control-allow-origin"]) == (200, "https://a.example")
        assert len(events_of(data)) == 4
        connection.sendall(post(CHAT, BODY, "Origin: https://b.example", "X-API-Key: k"))
        assert "access-control-allow-origin" not in read_response(connection)[1]


def test_pipelined_requests_are_answered_in_order() -> None:
    def script(request: Any) -> Script:
        return Script([content(*request.messages[0]["content"])])

    bodies = [{"stream": stream, "messages": [{"role": "user", "content": text}]} for text, stream in (
        ("ab", True), ("cd", False), ("ef", True),
    )]  # fmt: skip
    with (
        serving(script) as live,
        live.send(b"".join([post(CHAT, body) for body in bodies])) as connection,
        connection.makefile("rb") as file,
    ):
        texts = []
        for body in bodies:
            _, _, data = read_response(connection, file)
            if body["stream"]:
                deltas = [event["choices"][0]["delta"] for event in events_of(data)]
                texts.append("".join([delta.get("content", "") for delta in deltas]))
            else:
                texts.append(msgspec.json.decode(data)["choices"][0]["message"]["content"])
    assert texts == ["ab", "cd", "ef"]


def test_a_connection_serves_many_requests() -> None:
    with serving(Script([content("a")])) as live, live.send(b"") as connection:
        for number in range(20):
            connection.sendall(post(CHAT, {**BODY, "stream": number % 2 == 0}))
            assert read_response(connection)[0] == 200
        assert live.on_loop(lambda: len(live.server.server_state.connections)) == 1


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with (
        serving(Script([content("a")]), listen={"uds": str(path)}) as live,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.connect(str(path))
        connection.sendall(post(CHAT, {**BODY, "stream": True}))
        assert len(events_of(read_response(connection)[2])) == 3
    assert live.stage.requests


def test_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *names], check=True, capture_output=True)
    tls = Tls(certfile=str(certificate), keyfile=str(key))
    context = ssl.create_default_context(cafile=str(certificate))
    with (
        serving(Script([content("a" * 100_000, "b")]), listen={"tls": tls}) as live,
        httpx.Client(verify=context) as api,
    ):
        answer = api.post(f"https://127.0.0.1:{live.port}{CHAT}", json={**BODY, "stream": True})
    deltas = [event["choices"][0]["delta"] for event in events_of(answer.content)]
    assert "".join([delta.get("content", "") for delta in deltas]) == "a" * 100_000 + "b"


def test_a_root_path_is_what_a_proxy_took_away() -> None:
    with (
        serving(Script([content("a")]), root_path="/models/m", api_keys=("k",)) as live,
        live.send(b"") as connection,
    ):
        for path in ("/health", "/models/m/health"):
            connection.sendall(get(path))
            assert read_response(connection)[0] == 200, path
        for path in (CHAT, f"/models/m{CHAT}"):
            connection.sendall(post(path, BODY, "X-API-Key: k"))
            assert read_response(connection)[0] == 200, path
        connection.sendall(get("/openapi.json"))
        servers = msgspec.json.decode(read_response(connection)[2])["servers"]
    assert servers == [{"url": "/models/m"}]


def test_what_is_said_of_the_server() -> None:
    options: Any = {"root": "org/model", "format": "hermes"}
    with serving(Script([content("a")]), **options) as live, httpx.Client(base_url=live.base) as api:
        (model,) = api.get("/v1/models").json()["data"]
        assert model == api.get("/v1/models/m").json()
        created = model.pop("created")
        assert isinstance(created, int) and model == {
            "id": "m",
            "object": "model",
            "owned_by": "toolgrammar",
            "root": "org/model",
            "parent": None,
            "max_model_len": 4096,
            "permission": [],
            "format": "hermes",
        }
        assert api.get("/version").json()["version"] == "0.33.0"
        assert api.get("/load").json() == {"server_load": 0}
        assert api.head("/").status_code == 200
        assert api.post("/ping").status_code == 200
        live.stage.alive = False
        assert [api.get(path).status_code for path in ("/health", "/ready", "/live")] == [503, 503, 200]
        assert api.post(CHAT, json=BODY).json()["error"]["code"] == "engine_unavailable"
        assert live.stage.requests == []


def test_the_description_has_every_route_and_schema() -> None:
    with serving(Script([content("a")])) as live, httpx.Client(base_url=live.base) as api:
        found = api.get("/openapi.json").json()
        assert "swagger" in api.get("/docs").text.lower()
        routes = {route.path for route in live.server.config.app.routes if route.include_in_schema}  # type: ignore[union-attr, unused-ignore]
    aliases = {"/", "/v1/tokenize", "/v1/detokenize", "/v1/models/{model:path}"}
    assert routes - aliases == set(found["paths"]) - {"/v1/models/{model}"}
    text = msgspec.json.encode(found).decode()
    names = found["components"]["schemas"]
    assert all(reference.split('"')[0] in names for reference in text.split("#/components/schemas/")[1:])
    assert {"messages", "temperature", "toolgrammar"} <= set(names["ChatBody"]["properties"])


def test_tokenize_and_back() -> None:
    with serving(Script([content("a")])) as live, httpx.Client(base_url=live.base) as api:
        assert api.post("/tokenize", json={"prompt": "hé"}).json() == {
            "count": 4,
            "max_model_len": 4096,
            "tokens": [94, 104, 195, 169],
            "token_strs": None,
        }
        bare = {"prompt": "h", "add_special_tokens": False, "return_token_strs": True}
        assert api.post("/v1/tokenize", json=bare).json() == {
            "count": 1,
            "max_model_len": 4096,
            "tokens": [104],
            "token_strs": ["<104>"],
        }
        chat = api.post("/tokenize", json={**BODY, "add_generation_prompt": False}).json()
        assert chat["tokens"] == list(range(11))
        (request,) = live.stage.requests
        assert (request.messages, request.add_generation_prompt) == (BODY["messages"], False)
        assert api.post("/detokenize", json={"tokens": [104, 195, 169]}).json() == {"prompt": "hé"}
