"""The policy as a service: the Open Inference Protocol and a JSON interface of our own over HTTP, and a page.

Only `wolpertinger serve` imports it: FastAPI, uvicorn and prometheus-client are the extra [serve].
"""
