"""The command lines, and what runs a server: options to a plan, a plan to processes.

options          the table of options; command, config_file, options_page and frontend_args read it
plan             what is to be started, checked; model_dir, extras
serve, frontend  the two console scripts
deployment       a whole server: listening (HTTP), places (engine sockets), then the two below
api, assemble    one API process, in the launcher; workers, worker, channel: several beside it
sources          the engines: engines (commands), engine_process, replaying (captures), beginning
launcher         who is waited for and watched; processes: children in groups; telling: what a person hears
"""
