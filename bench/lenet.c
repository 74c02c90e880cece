#include "lenet.h"

lenet lenet_new(tp_ctx *tp)
{
    lenet net;
    net.conv[0] = tp_conv_layer_new(tp_params_new(tp), "conv1", 1, 6, TP_SQUARE(5, 1, 2), NULL);
    net.conv[1] =
        tp_conv_layer_new(tp_params_new(tp), "conv2", 6, 16, TP_SQUARE(5, 1, 0), NULL);
    net.dense[0] = tp_dense_new(tp_params_new(tp), "dense1", 400, 120, NULL);
    net.dense[1] = tp_dense_new(tp_params_new(tp), "dense2", 120, 84, NULL);
    net.dense[2] = tp_dense_new(tp_params_new(tp), "dense3", 84, 10, NULL);
    for (int i = 0; i < 2; i++) {
        net.params[2 * i] = net.conv[i].w;
        net.params[2 * i + 1] = net.conv[i].b;
    }
    for (int i = 0; i < 3; i++) {
        net.params[4 + 2 * i] = net.dense[i].w;
        net.params[5 + 2 * i] = net.dense[i].b;
    }
    return net;
}

tp_tensor *lenet_loss(const lenet *net, tp_tensor *x, tp_tensor *y)
{
    const tp_window two = {
        .kernel = {2, 2}
    };
    for (int i = 0; i < 2; i++)
        x = tp_max_pool(tp_relu(tp_conv_layer_apply(&net->conv[i], x)), &two);
    x = tp_flatten(x, 1);
    for (int i = 0; i < 2; i++)
        x = tp_relu(tp_dense_apply(&net->dense[i], x));
    return tp_cross_entropy(tp_dense_apply(&net->dense[2], x), y);
}
