/* The one function of bcryptprimitives.dll that Rust's standard library uses, over an older one that
 * every Wine has. Only tests load it. */
#include <windows.h>

/* RtlGenRandom. */
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG len);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T len) {
    while (len > 0) {
        ULONG part = len > 0x10000000 ? 0x10000000 : (ULONG)len;
        if (!SystemFunction036(data, part)) {
            return FALSE;
        }
        data += part;
        len -= part;
    }
    return TRUE;
}
