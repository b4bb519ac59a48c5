"""The rows of a noise stream, which is resumed if it is interrupted."""
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .arrays import read_rows
from .problems import Unreachable
from .transport import FAILURES, Patience, Transport


class NoiseRows(Iterator[Any]):
    """
    One row per step. `stream` is the id under which the service keeps the stream (None before the first row, or if it
    is not kept), and `row` the number of the next row; a program that restarts needs both to continue. The id is as
    secret as the noise.
    """

    def __init__(self, http: Transport, target: str, headers: Mapping[str, str], request: Mapping[str, Any],
                 stream: str | None, first_row: int) -> None:
        self.stream = stream
        self.row = first_row
        self._http = http
        self._target = target
        self._headers = headers
        self._request = request
        self._rows = self._draw()

    def __iter__(self) -> NoiseRows:
        return self

    def __next__(self) -> Any:
        return next(self._rows)

    def close(self) -> None:
        """Stops reading. The service keeps the stream for a while."""
        self._rows.close()

    def _body(self) -> bytes:
        again: dict[str, Any] = {} if self.stream is None else {"stream": self.stream}
        if again or self.row:
            again["first_row"] = self.row
        return json.dumps({**self._request, **again}, allow_nan=False).encode()

    def _draw(self) -> Any:
        patience: Patience | None = None  # since the last row
        while True:
            try:
                with self._http.stream("POST", self._target, self._body(), self._headers) as response:
                    self.stream = response.headers.get("X-Stream", self.stream)
                    for row in read_rows(response):
                        patience = None
                        self.row += 1
                        yield row
                    return
            except (EOFError, *FAILURES) as failure:
                patience = patience or self._http.patience()
                if self.stream is None or not patience.sleep():
                    raise Unreachable(f"the response broke off: {failure or type(failure).__name__}") from failure
