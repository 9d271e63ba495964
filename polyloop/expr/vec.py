"""Vector types under CUDA's names, as element types: ``pl.vec.float4``."""

from __future__ import annotations

from polyloop.expr.records import VECTORS

__all__ = [
    "char2",
    "char3",
    "char4",
    "double2",
    "double3",
    "double4",
    "float2",
    "float3",
    "float4",
    "int2",
    "int3",
    "int4",
    "longlong2",
    "longlong3",
    "longlong4",
    "short2",
    "short3",
    "short4",
    "uchar2",
    "uchar3",
    "uchar4",
    "uint2",
    "uint3",
    "uint4",
    "ulonglong2",
    "ulonglong3",
    "ulonglong4",
    "ushort2",
    "ushort3",
    "ushort4",
]

char2 = VECTORS["char2"]
char3 = VECTORS["char3"]
char4 = VECTORS["char4"]
uchar2 = VECTORS["uchar2"]
uchar3 = VECTORS["uchar3"]
uchar4 = VECTORS["uchar4"]
short2 = VECTORS["short2"]
short3 = VECTORS["short3"]
short4 = VECTORS["short4"]
ushort2 = VECTORS["ushort2"]
ushort3 = VECTORS["ushort3"]
ushort4 = VECTORS["ushort4"]
int2 = VECTORS["int2"]
int3 = VECTORS["int3"]
int4 = VECTORS["int4"]
uint2 = VECTORS["uint2"]
uint3 = VECTORS["uint3"]
uint4 = VECTORS["uint4"]
longlong2 = VECTORS["longlong2"]
longlong3 = VECTORS["longlong3"]
longlong4 = VECTORS["longlong4"]
ulonglong2 = VECTORS["ulonglong2"]
ulonglong3 = VECTORS["ulonglong3"]
ulonglong4 = VECTORS["ulonglong4"]
float2 = VECTORS["float2"]
float3 = VECTORS["float3"]
float4 = VECTORS["float4"]
double2 = VECTORS["double2"]
double3 = VECTORS["double3"]
double4 = VECTORS["double4"]
