"""An AsyncClient whose methods are called as those of a Client, so that one test is for both."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any

from longhaul import AsyncClient


class Blocking:
    """Runs the loop only while something is asked of the client."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        async def connect() -> AsyncClient:
            return AsyncClient(*arguments, **options)

        self._runner = asyncio.Runner()
        self._client = self._runner.run(connect())

    def __enter__(self) -> "Blocking":
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            answer = attribute(*arguments, **options)
            return self._iterate(answer) if isinstance(answer, AsyncGenerator) else self._runner.run(answer)

        return call if callable(attribute) else attribute

    def _iterate(self, answers: AsyncGenerator[Any]) -> Iterator[Any]:
        async def after() -> Any:
            return await anext(answers, None)

        try:
            while (answer := self._runner.run(after())) is not None:
                yield answer
        finally:
            close: Coroutine[Any, Any, None] = answers.aclose()
            self._runner.run(close)
