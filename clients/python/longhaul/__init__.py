"""Client of Longhaul, a durable queue for long AI jobs.

`Client` blocks, `AsyncClient` is for asyncio; both have the same methods, and raise `Error`.
The messages are in `longhaul.v1`, such as `longhaul.v1.job_pb2.Job`.
"""

from ._aio import AsyncClient
from ._client import Client
from ._error import Error, Violation

__all__ = ["AsyncClient", "Client", "Error", "Violation"]
