"""XXH3 with 64 bits, seed 0 and the default secret: the hash that Kafka takes for what a group reads (KIP-1101).

    xxh3_64(b"orders")      # an unsigned number of 64 bits

By the specification of xxHash (doc/xxhash_spec.md there), which has another way for each range of lengths. In Python, since what is
hashed here is short and rare: a topic, whenever it changes. The 40 kB of a topic with 10,000 partitions take a few milliseconds.
"""

from __future__ import annotations

from struct import Struct

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK, _LOW = (1 << 64) - 1, (1 << 32) - 1
_P32 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MX1, _MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_STRIPE, _BLOCK, _STRIPES = 64, 1024, 16
_LANES = Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """The 64-bit XXH3 hash of ``data``."""
    n = len(data)
    if n <= 16:
        return _up_to_16(data, n)
    if n <= 128:
        return _up_to_128(data, n)
    return _up_to_240(data, n) if n <= 240 else _long(data, n)


def _at(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 8], "little")


def _secret(offset: int) -> int:
    return _at(_SECRET, offset)


def _folded(a: int, b: int) -> int:
    """Both halves of a product of 128 bits, one over the other."""
    product = a * b
    return (product & _MASK) ^ (product >> 64)


def _avalanche(h: int) -> int:
    h ^= h >> 37
    h = h * _MX1 & _MASK
    return h ^ h >> 32


def _old_avalanche(h: int) -> int:
    """XXH64's, which the shortest have."""
    h ^= h >> 33
    h = h * _P64[1] & _MASK
    h ^= h >> 29
    h = h * _P64[2] & _MASK
    return h ^ h >> 32


def _rotated(h: int, by: int) -> int:
    return (h << by | h >> (64 - by)) & _MASK


def _mixed(data: bytes, offset: int, secret: int) -> int:
    return _folded(_at(data, offset) ^ _secret(secret), _at(data, offset + 8) ^ _secret(secret + 8))


def _up_to_16(data: bytes, n: int) -> int:
    if n > 8:
        low = _at(data, 0) ^ _secret(24) ^ _secret(32)
        high = _at(data, n - 8) ^ _secret(40) ^ _secret(48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((n + swapped + high + _folded(low, high)) & _MASK)
    if n >= 4:
        first, last = int.from_bytes(data[:4], "little"), int.from_bytes(data[-4:], "little")
        h = (last + (first << 32)) ^ _secret(8) ^ _secret(16)
        h ^= _rotated(h, 49) ^ _rotated(h, 24)
        h = h * _MX2 & _MASK
        h ^= (h >> 35) + n
        h = h * _MX2 & _MASK
        return h ^ h >> 28
    if n:
        combined = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return _old_avalanche(combined ^ (_secret(0) ^ _secret(0) >> 32) & _LOW)
    return _old_avalanche(_secret(56) ^ _secret(64))


def _up_to_128(data: bytes, n: int) -> int:
    acc = n * _P64[0]
    for i in range((n - 1) // 32, -1, -1):
        acc += _mixed(data, 16 * i, 32 * i) + _mixed(data, n - 16 * (i + 1), 32 * i + 16)
    return _avalanche(acc & _MASK)


def _up_to_240(data: bytes, n: int) -> int:
    acc = n * _P64[0]
    for i in range(8):
        acc += _mixed(data, 16 * i, 16 * i)
    acc = _avalanche(acc & _MASK)
    for i in range(8, n // 16):
        acc += _mixed(data, 16 * i, 16 * (i - 8) + 3)
    return _avalanche((acc + _mixed(data, n - 16, 136 - 17)) & _MASK)


def _long(data: bytes, n: int) -> int:
    acc = [_P32[2], _P64[0], _P64[1], _P64[2], _P64[3], _P32[1], _P64[4], _P32[0]]
    keys = [_LANES.unpack_from(_SECRET, 8 * i) for i in range(_STRIPES)]
    scramble = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    stripes = (n - 1) // _STRIPE
    for i in range(stripes):
        _accumulate(acc, _LANES.unpack_from(data, i * _STRIPE), keys[i % _STRIPES])
        if i % _STRIPES == _STRIPES - 1:
            for lane, key in enumerate(scramble):
                acc[lane] = (acc[lane] ^ acc[lane] >> 47 ^ key) * _P32[0] & _MASK
    _accumulate(acc, _LANES.unpack_from(data, n - _STRIPE), _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE - 7))
    h = n * _P64[0]
    for i in range(4):
        h += _folded(acc[2 * i] ^ _secret(11 + 16 * i), acc[2 * i + 1] ^ _secret(19 + 16 * i))
    return _avalanche(h & _MASK)


def _accumulate(acc: list[int], lanes: tuple[int, ...], keys: tuple[int, ...]) -> None:
    for i, (value, key) in enumerate(zip(lanes, keys, strict=True)):
        keyed = value ^ key
        acc[i ^ 1] = (acc[i ^ 1] + value) & _MASK
        acc[i] = (acc[i] + (keyed & _LOW) * (keyed >> 32)) & _MASK
