#ifndef X_ADDED
#define X_ADDED BIAS(r, c)
#define Y_ADDED BIAS(r, c + 1)
#endif
        if (r >= p.m) { continue; }
#if PAIRS
        if (c < p.n) {
            *(u32*)&OUT(r, c) = u32(finished(ALPHA * x + X_ADDED)) | u32(finished(ALPHA * y + Y_ADDED)) << 16;
        }
#else
        if (c < p.n) { OUT(r, c) = finished(ALPHA * x + X_ADDED); }
        if (c + 1 < p.n) { OUT(r, c + 1) = finished(ALPHA * y + Y_ADDED); }
#endif
    }
