    if (first + EACH <= p.count) {
        Pack<Stored, EACH> pack;
        UNROLL
        for (u32 index = 0; index < EACH; ++index) { pack.values[index] = drawn[index]; }
        store_pack<EACH>(dst + p.dst_at + first, pack);
        return;
    }
