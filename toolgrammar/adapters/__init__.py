"""Events and messages in the shapes of other APIs: pure mappings, nothing is imported from anyone.

openai.py       chat.completion.chunk deltas, chat messages
anthropic.py    stream events, messages with content blocks
"""
