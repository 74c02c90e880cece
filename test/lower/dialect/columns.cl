__kernel void columns(__global const tpk_f32 *v0, __global tpk_bool *v1, __global tpk_f32 *v2, __global tpk_f32 *t3_all, const long s0) {
    for (long i0 = get_global_id(0); i0 < 3; i0 += get_global_size(0)) {
        __global tpk_f32 *t3 = t3_all + get_global_id(0) * ((2*s0+1));
        long n3 = (2*s0+1);
        long p3 = 0;
        tpk_f32 x7 = tpk_from_bits_f32(0x0);
        tpk_f32 x7_block = tpk_from_bits_f32(0x0);
        tpk_f32 x8 = tpk_from_bits_f32(0x7f800000);
        tpk_f32 x8_block = tpk_from_bits_f32(0x7f800000);
        for (long i1 = 0; i1 < (2*s0+1); i1++) {
            const tpk_f32 x5 = v0[(6*s0) + i0 + i1 * (-3)];
            t3[i1] = x5;
            x7_block = tpk_add_f32(x7_block, x5);
            x8_block = tpk_min_f32(x8_block, x5);
            p3 = p3 + 1;
            if (p3 % 4096 == 0 || p3 == n3) {
                long b = (p3 - 1) / 4096;
                x7 = b == 0 ? x7_block : tpk_add_f32(x7, x7_block);
                x7_block = tpk_from_bits_f32(0x0);
                x8 = b == 0 ? x8_block : tpk_min_f32(x8, x8_block);
                x8_block = tpk_from_bits_f32(0x7f800000);
            }
        }
        const tpk_f32 x9 = tpk_cast_i64_f32((2*s0+1));
        const tpk_f32 x10 = tpk_div_f32(x7, x9);
        const tpk_bool x11 = tpk_lt_f32(x8, x10);
        v1[i0] = x11;
        for (long i1 = 0; i1 < (2*s0+1); i1++) {
            const tpk_f32 x15 = t3[i1];
            const tpk_f32 x16 = tpk_from_bits_f32(0x3f000000);
            const tpk_f32 x17 = tpk_where_f32(x11, x15, x16);
            v2[i0 * (2*s0+1) + i1] = x17;
        }
    }
}
