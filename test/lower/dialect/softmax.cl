__kernel void softmax(__global const tpk_f32 *v0, __global tpk_f32 *v1, __global tpk_f32 *t2_all, const long s0, const long s1) {
    for (long i0 = get_global_id(0); i0 < s0; i0 += get_global_size(0)) {
        __global tpk_f32 *t2 = t2_all + get_global_id(0) * (s1);
        long n3 = s1;
        long p3 = 0;
        long lanes3 = n3 < 256 ? 16 : 64;
        tpk_f32 x6 = tpk_from_bits_f32(0xff800000);
        tpk_f32 x6_lane[64];
        tpk_f32 x6_level[48];
        for (long l = 0; l < lanes3; l++) {
            x6_lane[l] = tpk_from_bits_f32(0xff800000);
        }
        for (long i1 = 0; i1 < s1; i1++) {
            const tpk_f32 x5 = v0[i0 * s1 + i1];
            x6_lane[p3 % 4096 % lanes3] = tpk_max_f32(x6_lane[p3 % 4096 % lanes3], x5);
            p3 = p3 + 1;
            if (p3 % 4096 == 0 || p3 == n3) {
                long b = (p3 - 1) / 4096;
                for (long h = 0; h < 6; h++) {
                    for (long l = 0; l < (lanes3 >> (h + 1)); l++) {
                        x6_lane[l] = tpk_max_f32(x6_lane[l], x6_lane[l + (lanes3 >> (h + 1))]);
                    }
                }
                tpk_f32 x6_block = x6_lane[0];
                for (long l = 0; l < lanes3; l++) {
                    x6_lane[l] = tpk_from_bits_f32(0xff800000);
                }
                for (long k = 0; k < 48; k++) {
                    if ((b + 1) >> k << k == b + 1) {
                        if ((b >> k) % 2 == 0) {
                            x6_level[k] = x6_block;
                        }
                        if ((b >> k) % 2 == 1) {
                            x6_block = tpk_max_f32(x6_level[k], x6_block);
                        }
                    }
                }
            }
        }
        long b3 = (n3 + 4095) / 4096;
        for (long k = 0; k < 48; k++) {
            if ((b3 >> k) % 2 == 1) {
                x6 = b3 >> k << k == b3 ? x6_level[k] : tpk_max_f32(x6_level[k], x6);
            }
        }
        long n7 = s1;
        long p7 = 0;
        long lanes7 = n7 < 256 ? 16 : 64;
        tpk_f32 x13 = tpk_from_bits_f32(0x0);
        tpk_f32 x13_lane[64];
        tpk_f32 x13_level[48];
        for (long l = 0; l < lanes7; l++) {
            x13_lane[l] = tpk_from_bits_f32(0x0);
        }
        for (long i1 = 0; i1 < s1; i1++) {
            const tpk_f32 x9 = v0[i0 * s1 + i1];
            const tpk_f32 x10 = tpk_sub_f32(x9, x6);
            const tpk_f32 x11 = tpk_exp_f32(x10);
            t2[i1] = x11;
            x13_lane[p7 % 4096 % lanes7] = tpk_add_f32(x13_lane[p7 % 4096 % lanes7], x11);
            p7 = p7 + 1;
            if (p7 % 4096 == 0 || p7 == n7) {
                long b = (p7 - 1) / 4096;
                for (long h = 0; h < 6; h++) {
                    for (long l = 0; l < (lanes7 >> (h + 1)); l++) {
                        x13_lane[l] = tpk_add_f32(x13_lane[l], x13_lane[l + (lanes7 >> (h + 1))]);
                    }
                }
                tpk_f32 x13_block = x13_lane[0];
                for (long l = 0; l < lanes7; l++) {
                    x13_lane[l] = tpk_from_bits_f32(0x0);
                }
                for (long k = 0; k < 48; k++) {
                    if ((b + 1) >> k << k == b + 1) {
                        if ((b >> k) % 2 == 0) {
                            x13_level[k] = x13_block;
                        }
                        if ((b >> k) % 2 == 1) {
                            x13_block = tpk_add_f32(x13_level[k], x13_block);
                        }
                    }
                }
            }
        }
        long b7 = (n7 + 4095) / 4096;
        for (long k = 0; k < 48; k++) {
            if ((b7 >> k) % 2 == 1) {
                x13 = b7 >> k << k == b7 ? x13_level[k] : tpk_add_f32(x13_level[k], x13);
            }
        }
        for (long i1 = 0; i1 < s1; i1++) {
            const tpk_f32 x16 = t2[i1];
            const tpk_f32 x17 = tpk_div_f32(x16, x13);
            v1[i0 * s1 + i1] = x17;
        }
    }
}
