# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=True
"""The compiled memory of a frame that is arriving; its twin is `frames.GrowingFrame`.

It is not zeroed, so that pages which nothing has arrived for are never touched, whatever length the
peer announced. What comes from a plain socket is received into it at one go, without the GIL: else
each piece of the frame would give the GIL up and wait to get it again, 5 ms and more while the
application computes.

A frame belongs to the thread of the sockets until it is complete; then nobody writes to it. So the
module does not enable the GIL in a Python without one.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memcpy

import os

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int POLLIN
    int poll(pollfd *fds, unsigned long count, int timeout)

cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT
    ssize_t recv(int fd, void *room, size_t size, int flags)

cdef extern from "<time.h>" nogil:
    int CLOCK_MONOTONIC
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *time)

cdef extern from "<errno.h>" nogil:
    int EWOULDBLOCK

cdef enum:
    #: How long a silence ends `fill`, and how long it takes at most: other connections wait.
    SILENCE_MS = 2
    AT_MOST_MS = 20


cdef inline long _milliseconds() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1000 + now.tv_nsec // 1_000_000


cdef class FrameMemory:
    """Owns the bytes of one frame of `length` bytes, of which those in `arrived` are here."""

    cdef readonly Py_ssize_t length, filled
    cdef char *_bytes

    def __cinit__(self, Py_ssize_t length, const unsigned char[::1] arrived):
        assert 0 < arrived.shape[0] < length or not arrived.shape[0], "more than the frame"
        self._bytes = <char *>PyMem_RawMalloc(length)
        if self._bytes == NULL:
            raise MemoryError(f"no memory for a frame of {length} bytes")
        self.length = length
        self.filled = arrived.shape[0]
        if self.filled:
            memcpy(self._bytes, &arrived[0], self.filled)

    def __dealloc__(self):
        PyMem_RawFree(self._bytes)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self._bytes, self.length, 0, flags)

    def receive(self, recv_into):
        """Receive once; returns how many bytes came and how many could have."""
        cdef Py_ssize_t room = self.length - self.filled
        cdef Py_ssize_t received = recv_into(memoryview(self)[self.filled :])
        assert 0 <= received <= room, "more was received than there is room for"
        self.filled += received
        return received, room

    def fill(self, int fd):
        """Receive from this plain socket, without the GIL, until the frame is complete.

        A short silence ends it, too, and it takes some 20 ms at most. Returns how many bytes came
        and how many could have. Raises OSError if there is an error before anything came.
        """
        cdef Py_ssize_t room = self.length - self.filled, filled = self.filled, received
        cdef pollfd waiting
        cdef long until
        cdef int failed = 0
        with nogil:
            until = _milliseconds() + AT_MOST_MS
            waiting.fd, waiting.events = fd, <short>POLLIN
            while filled < self.length:
                received = recv(fd, self._bytes + filled, self.length - filled, MSG_DONTWAIT)
                if received > 0:
                    filled += received
                    if _milliseconds() >= until:
                        break
                    continue
                if received < 0:
                    failed = errno
                    if failed == EINTR:
                        break
                    if failed == EAGAIN or failed == EWOULDBLOCK:
                        # Only what has begun to come is waited for.
                        if filled > self.filled and _milliseconds() < until:
                            if poll(&waiting, 1, SILENCE_MS) > 0:
                                continue
                break
        received = filled - self.filled
        self.filled = filled
        if not received and failed:
            raise OSError(failed, os.strerror(failed))
        return received, room

    def content(self):
        """The frame, once it is complete."""
        assert self.filled == self.length, "the rest is not here yet"
        return memoryview(self).toreadonly()
