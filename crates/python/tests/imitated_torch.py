"""A little of PyTorch on the imitation of NVIDIA's driver, imported as ``torch``.

It has tensors on a GPU, a stream for each thread, and the functions by which PyTorch exchanges tensors. So what the package
does with them is tried without a GPU.
"""

import ctypes
import sys
import threading
import types

import numpy as np

driver = ctypes.CDLL("libcuda.so.1")
_context = ctypes.c_void_p()
_local = threading.local()
_CODES = {"f": 2, "i": 0, "u": 1, "b": 6}


def ok(code):
    assert code == 0, f"the driver says {code}"


ok(driver.cuInit(0))
ok(driver.cuDevicePrimaryCtxRetain(ctypes.byref(_context), 0))


def stream():
    """The current stream of this thread."""
    if not hasattr(_local, "stream"):
        ok(driver.cuCtxSetCurrent(_context))
        _local.stream = ctypes.c_void_p()
        ok(driver.cuStreamCreate(ctypes.byref(_local.stream), 1))
    return _local.stream


def synchronize():
    ok(driver.cuStreamSynchronize(stream()))


class Tensor:
    __module__ = "torch"

    def __init__(self, shape, dtype="float32", address=None):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.bytes = int(np.prod(self.shape)) * self.dtype.itemsize
        self.device, self.requires_grad = types.SimpleNamespace(type="cuda", index=0), False
        self.address = ctypes.c_uint64(address or 0)
        stream()
        if address is None:
            ok(driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(max(1, self.bytes))))
        strides = [int(np.prod(self.shape[axis + 1 :])) for axis in range(len(self.shape))]
        self._sizes = (ctypes.c_int64 * max(1, len(self.shape)))(*self.shape)
        self._strides = (ctypes.c_int64 * max(1, len(self.shape)))(*strides)

    def new_empty(self, shape, dtype=None):
        return Tensor(shape, dtype or self.dtype)

    def detach(self):
        return self

    def clone(self, memory_format):
        return Tensor(self.shape, self.dtype).copy_(self)

    def fill_(self, value):
        return self.set_(np.full(self.shape, value, self.dtype))

    def set_(self, values):
        address, count = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(self.bytes)
        ok(driver.cuMemcpyHtoDAsync_v2(self.address, address, count, stream()))
        synchronize()
        return self

    def copy_(self, other):
        ok(driver.cuMemcpyDtoDAsync_v2(self.address, other.address, ctypes.c_size_t(self.bytes), stream()))
        return self

    def cpu(self):
        values = np.empty(self.shape, self.dtype)
        address, count = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(self.bytes)
        ok(driver.cuMemcpyDtoHAsync_v2(address, self.address, count, stream()))
        synchronize()
        return values


class _View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_View))
def _view(tensor, to):
    view = to.contents
    view.data, view.byte_offset = tensor.address.value, 0
    view.device_type, view.device_id, view.ndim = 2, 0, len(tensor.shape)
    view.code, view.bits, view.lanes = _CODES[tensor.dtype.kind], 8 * tensor.dtype.itemsize, 1
    view.shape, view.strides = ctypes.addressof(tensor._sizes), ctypes.addressof(tensor._strides)
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def _current_stream(kind, number, to):
    to[0] = stream().value
    return 0


class _Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("others", ctypes.c_void_p * 4),
        ("view", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    ]


_functions = [ctypes.cast(function, ctypes.c_void_p) for function in (_view, _current_stream)]
_exchange, _name = _Exchange(1, 3, (ctypes.c_void_p * 4)(), *_functions), b"dlpack_exchange_api"
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
Tensor.__dlpack_c_exchange_api__ = _capsule(ctypes.addressof(_exchange), _name, None)

module = types.ModuleType("torch")
module.Tensor, module.contiguous_format = Tensor, None
module.cuda = types.SimpleNamespace(current_stream=lambda number: types.SimpleNamespace(synchronize=synchronize))
for _dtype in ("float32", "float64", "int32", "int64", "bool"):
    setattr(module, _dtype, _dtype)
sys.modules["torch"] = module
