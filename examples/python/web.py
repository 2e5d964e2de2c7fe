"""A web server in front of one model, with FastAPI: python examples/python/web.py MODEL [DEVICE] [PORT].

Needs the packages fastapi and uvicorn. Ask it:

    curl -X POST localhost:8000/threads -H 'Content-Type: application/json' -d '{"rows": [[0, 1, 2]]}'
"""

# %% One session and one queue serve all requests.
import contextlib
import sys

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import streampool as sp

session = sp.Session(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "auto")
(model_input,) = session.inputs
queue = sp.BatchQueue(session, max_batch_size=32, capacity=1000)


@contextlib.asynccontextmanager
async def lifespan(_app):
    """Prepare what the first request needs, and answer the last ones before the server ends."""
    queue.infer([[[0.0] * model_input.shape[-1]]])
    yield
    queue.close()


app = FastAPI(lifespan=lifespan)


class Rows(BaseModel):
    """What a client sends."""

    rows: list[list[float]]


def told(outputs):
    """Return outputs as JSON has them."""
    return {name: array.tolist() for name, array in outputs.items()}


# %% A thread for each request: FastAPI calls a plain function on a thread of its pool.
@app.post("/threads")
def on_a_thread(given: Rows):
    """Run the model on this thread's own stream."""
    return told(session.run([given.rows]))


# %% A thread for each request, in batches: those that come at the same time go together.
@app.post("/threads/batched")
def on_a_thread_in_batches(given: Rows):
    """Wait for a batch on this thread."""
    return told(queue.infer([given.rows], timeout=5))


# %% asyncio: the event loop goes on while the batch is computed. A client that goes away withdraws its request.
@app.post("/tasks")
async def in_a_task(given: Rows):
    """Await a batch."""
    return told(await queue.infer_async([given.rows], timeout=5))


@app.get("/statistics")
def statistics():
    """Return what the queue has done so far."""
    return queue.statistics()


# %% Errors of the library become statuses of HTTP.
@app.exception_handler(sp.Error)
async def refused(_request: Request, error: sp.Error):
    """Tell the client what is wrong, and when to come again."""
    match error:
        case sp.Overloaded():
            headers = {"Retry-After": str(max(1, round(error.retry_after or 1)))}
            return JSONResponse({"error": str(error)}, 503, headers)
        case sp.DeadlineExceeded():
            return JSONResponse({"error": str(error)}, 504)
        case sp.InvalidInput() | sp.TooLarge():
            return JSONResponse({"error": str(error)}, 400)
    return JSONResponse({"error": str(error)}, 500)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[3]) if len(sys.argv) > 3 else 8000, log_level="warning")
