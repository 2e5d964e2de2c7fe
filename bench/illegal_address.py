#!/usr/bin/env python3
"""Shows what the bare driver does with an illegal address on one of two GPUs of a process. Needs two GPUs and Python.

    illegal_address.py

One kernel of the last GPU writes to memory that nobody allocated, while the first GPU runs a kernel that is right. Prints what
the driver then answers for each GPU: 0 for success, 700 for CUDA_ERROR_ILLEGAL_ADDRESS. Each case is a process of its own: with
and without access of the GPUs to each other's memory.
"""

import ctypes
import subprocess
import sys
import time
from threading import Thread

WRITE = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry write(.param .u64 to) { .reg .u64 %to; ld.param.u64 %to, [to]; st.global.u32 [%to], 1; ret; }
"""
NOWHERE = 0xDEAD0000


def call(driver, name, *arguments):
    result = getattr(driver, name)(*arguments)
    if result:
        sys.exit(f"{name} answers {result}")


class Gpu:
    def __init__(self, driver, number):
        self.driver, self.context, self.stream = driver, ctypes.c_void_p(), ctypes.c_void_p()
        self.kernel, self.memory = ctypes.c_void_p(), ctypes.c_uint64()
        module = ctypes.c_void_p()
        call(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(self.context), number)
        call(driver, "cuCtxSetCurrent", self.context)
        call(driver, "cuStreamCreate", ctypes.byref(self.stream), 1)
        call(driver, "cuModuleLoadData", ctypes.byref(module), WRITE)
        call(driver, "cuModuleGetFunction", ctypes.byref(self.kernel), module, b"write")
        call(driver, "cuMemAlloc_v2", ctypes.byref(self.memory), 4096)

    def write(self, address):
        """What launching and waiting answer."""
        self.driver.cuCtxSetCurrent(self.context)
        address = ctypes.c_uint64(address)
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(address), ctypes.c_void_p))
        launched = self.driver.cuLaunchKernel(self.kernel, 1, 1, 1, 1, 1, 1, 0, self.stream, parameters, None)
        return launched or self.driver.cuStreamSynchronize(self.stream)

    def write_well(self):
        return self.write(self.memory.value)


def strike(peers):
    driver = ctypes.CDLL("libcuda.so.1")
    call(driver, "cuInit", 0)
    gpus = [Gpu(driver, 0), Gpu(driver, 1)]
    if peers:
        for own, other in (gpus, reversed(gpus)):
            call(driver, "cuCtxSetCurrent", own.context)
            call(driver, "cuCtxEnablePeerAccess", other.context, 0)
    before = [gpu.write_well() for gpu in gpus]
    answers = []

    def work():
        while not answers or answers[-1] == 0 and time.monotonic() < end:
            answers.append(gpus[0].write_well())

    end = time.monotonic() + 1
    thread = Thread(target=work)
    thread.start()
    time.sleep(0.2)
    struck = gpus[1].write(NOWHERE)
    thread.join()
    after = [gpu.write_well() for gpu in gpus]
    print(f"{'with' if peers else 'without'} peer access: before {before}, the kernel {struck}, "
          f"the other GPU meanwhile {answers[-1]} after {len(answers)} launches, afterwards {after}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        strike(sys.argv[1] == "peers")
    else:
        for case in ("peers", "apart"):
            subprocess.run([sys.executable, __file__, case], check=False)
