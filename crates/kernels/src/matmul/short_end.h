        if (r >= p.m) { continue; }
#if PAIRS
        if (c < p.n) {
            *(u32*)&OUT(r, c) = u32(finished(ALPHA * x + BIAS(r, c))) | u32(finished(ALPHA * y + BIAS(r, c + 1))) << 16;
        }
#else
        if (c < p.n) { OUT(r, c) = finished(ALPHA * x + BIAS(r, c)); }
        if (c + 1 < p.n) { OUT(r, c + 1) = finished(ALPHA * y + BIAS(r, c + 1)); }
#endif
    }
