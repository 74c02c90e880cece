#define CL_TARGET_OPENCL_VERSION 120
#include "opencl_device.h"

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PROGRAMS = 256, MAX_DEVICES = 16 };

struct opencl_device {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    cl_program program[MAX_PROGRAMS];
    int n_programs;
};

static bool failed(cl_int code, const char *what, char why[OPENCL_WHY])
{
    if (code != CL_SUCCESS)
        snprintf(why, OPENCL_WHY, "%s: error %d", what, (int)code);
    return code != CL_SUCCESS;
}

/* ---- a device ------------------------------------------------------------------------------------------------ */

static bool is_exact(cl_device_id id)
{
    cl_device_fp_config f32 = 0, f64 = 0;
    const cl_device_fp_config both =
        CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_FMA;
    clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof f32, &f32, NULL);
    clGetDeviceInfo(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof f64, &f64, NULL);
    return (f32 & both) == both && (f64 & both) == both &&
           (f32 & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT);
}

static cl_device_id find_device(char why[OPENCL_WHY])
{
    cl_platform_id platform[MAX_DEVICES];
    cl_uint n_platforms = 0;
    snprintf(why, OPENCL_WHY, "there is no OpenCL platform");
    if (clGetPlatformIDs(MAX_DEVICES, platform, &n_platforms) != CL_SUCCESS)
        n_platforms = 0;
    for (cl_uint i = 0; i < n_platforms && i < MAX_DEVICES; i++) {
        cl_device_id id[MAX_DEVICES];
        cl_uint n = 0;
        if (clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_CPU, MAX_DEVICES, id, &n) != CL_SUCCESS)
            n = 0;
        for (cl_uint k = 0; k < n && k < MAX_DEVICES; k++)
            if (is_exact(id[k]))
                return id[k];
        snprintf(why, OPENCL_WHY,
                 "no CPU device of OpenCL computes f32 and f64 as IEEE 754 says");
    }
    return NULL;
}

opencl_device *opencl_open(char why[OPENCL_WHY])
{
    cl_int code = CL_SUCCESS;
    opencl_device *d = calloc(1, sizeof *d);
    snprintf(why, OPENCL_WHY, "no memory");
    if (!d || !(d->id = find_device(why))) {
        free(d);
        return NULL;
    }
    d->context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    if (!failed(code, "clCreateContext", why))
        d->queue = clCreateCommandQueue(d->context, d->id, 0, &code);
    if (d->queue && !failed(code, "clCreateCommandQueue", why))
        return d;
    opencl_close(d);
    return NULL;
}

void opencl_close(opencl_device *d)
{
    for (int i = 0; i < d->n_programs; i++)
        clReleaseProgram(d->program[i]);
    if (d->queue)
        clReleaseCommandQueue(d->queue);
    if (d->context)
        clReleaseContext(d->context);
    free(d);
}

void opencl_name(const opencl_device *d, char *name, size_t size)
{
    char device[200] = "", version[200] = "";
    clGetDeviceInfo(d->id, CL_DEVICE_NAME, sizeof device, device, NULL);
    clGetDeviceInfo(d->id, CL_DEVICE_VERSION, sizeof version, version, NULL);
    snprintf(name, size, "%s, %s", device, version);
}

/* ---- programs and runs --------------------------------------------------------------------------------------- */

/* PoCL 6 knows the language of OpenCL 3 and not that of 2; with PoCL 3 our programs are built as those of 2 only. */
static cl_int build(const opencl_device *d, cl_program p)
{
    static const char *const options[] = {
        "-cl-std=CL2.0 -cl-fp32-correctly-rounded-divide-sqrt",
        "-cl-std=CL3.0 -cl-fp32-correctly-rounded-divide-sqrt"};
    const cl_int code = clBuildProgram(p, 1, &d->id, options[0], NULL, NULL);
    return code == CL_SUCCESS ? code : clBuildProgram(p, 1, &d->id, options[1], NULL, NULL);
}

bool opencl_add(opencl_device *d, const char *source, char why[OPENCL_WHY])
{
    cl_int code = CL_SUCCESS;
    snprintf(why, OPENCL_WHY, "too many programs");
    if (d->n_programs == MAX_PROGRAMS)
        return false;
    cl_program p = clCreateProgramWithSource(d->context, 1, &source, NULL, &code);
    if (failed(code, "clCreateProgramWithSource", why))
        return false;
    d->program[d->n_programs++] = p;
    code = build(d, p);
    if (!failed(code, "clBuildProgram", why))
        return true;
    clGetProgramBuildInfo(p, d->id, CL_PROGRAM_BUILD_LOG, OPENCL_WHY - 1, why, NULL);
    return false;
}

static cl_kernel find_kernel(const opencl_device *d, const char *name, char why[OPENCL_WHY])
{
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < d->n_programs; i++) {
        cl_kernel k = clCreateKernel(d->program[i], name, &code);
        if (code == CL_SUCCESS)
            return k;
    }
    failed(code, "clCreateKernel", why);
    return NULL;
}

/* Buffers of no bytes do not exist. */
static cl_mem new_buffer(const opencl_device *d, const opencl_memory *m, cl_int *code)
{
    const bool filled = m->data && m->bytes > 0;
    return clCreateBuffer(d->context, CL_MEM_READ_WRITE | (filled ? CL_MEM_COPY_HOST_PTR : 0),
                          m->bytes + !m->bytes, filled ? m->data : NULL, code);
}

static bool set_arguments(const opencl_device *d, cl_kernel k, int n_memories,
                          const opencl_memory *memory, cl_mem *buffer, int n_numbers,
                          const int64_t *number, char why[OPENCL_WHY])
{
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < n_memories && code == CL_SUCCESS; i++) {
        buffer[i] = new_buffer(d, &memory[i], &code);
        if (code == CL_SUCCESS)
            code = clSetKernelArg(k, (cl_uint)i, sizeof buffer[i], &buffer[i]);
    }
    for (int i = 0; i < n_numbers && code == CL_SUCCESS; i++)
        code = clSetKernelArg(k, (cl_uint)(n_memories + i), sizeof number[i], &number[i]);
    return !failed(code, "clSetKernelArg", why);
}

static bool read_back(const opencl_device *d, int n_memories, const opencl_memory *memory,
                      cl_mem *buffer, char why[OPENCL_WHY])
{
    cl_int code = clFinish(d->queue);
    for (int i = 0; i < n_memories && code == CL_SUCCESS; i++)
        if (memory[i].data && memory[i].bytes > 0)
            code = clEnqueueReadBuffer(d->queue, buffer[i], CL_TRUE, 0, memory[i].bytes,
                                       memory[i].data, 0, NULL, NULL);
    return !failed(code, "clEnqueueReadBuffer", why);
}

bool opencl_run(opencl_device *d, const char *kernel, size_t items, int n_memories,
                const opencl_memory *memory, int n_numbers, const int64_t *number,
                char why[OPENCL_WHY])
{
    const size_t group = 1;
    cl_mem *buffer = calloc((size_t)n_memories + 1, sizeof *buffer);
    cl_kernel k = buffer ? find_kernel(d, kernel, why) : NULL;
    const bool ok =
        k && set_arguments(d, k, n_memories, memory, buffer, n_numbers, number, why) &&
        !failed(clEnqueueNDRangeKernel(d->queue, k, 1, NULL, &items, &group, 0, NULL, NULL),
                "clEnqueueNDRangeKernel", why) &&
        read_back(d, n_memories, memory, buffer, why);
    for (int i = 0; i < n_memories && buffer; i++)
        if (buffer[i])
            clReleaseMemObject(buffer[i]);
    if (k)
        clReleaseKernel(k);
    free(buffer);
    return ok;
}
