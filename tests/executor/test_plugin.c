/* Plugins (rp_plugin_load): the types of examples/dtypes.c and an op with a pattern, each from a shared object; what is
 * refused, with its text. Each test is a process of its own, and copies the shared object to a folder of its own. */
#include "tests/support/folder.h"
#include "tests/support/golden.h"

#include "reprise/plugin.h"

#include <sys/stat.h>

#define BUILT RP_BUILD_DIR "/tests/backends/"

static char path[128];

TestSuite(plugin, .init = make_folder, .fini = remove_folder);

/* `path` is a copy of the file, as NAME.so. */
static const char *copy_as(const char *from, const char *name) {
    char command[512];
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    snprintf(command, sizeof command, "cp '%s' '%s' && chmod 644 '%s'", from, path, path);
    cr_assert_eq(system(command), 0, "%s", command);
    return path;
}

/* `text` has a %s for the path. */
static void refuse(const char *from, RpStatus status, const char *text) {
    char want[512];
    snprintf(want, sizeof want, text, from);
    cr_assert_eq(rp_plugin_load(from), status, "%s: %s", from, rp_last_error());
    cr_expect_eq(strncmp(rp_last_error(), want, strlen(want)), 0, "\"%s\" does not begin with \"%s\"", rp_last_error(),
                 want);
}

Test(plugin, registers_types_once) {
    float         x[64] = {1.0f, -0.25f}, y[64];
    unsigned char block[36];
    RpDtype       type;
    cr_expect_neq(rp_dtype_from_gguf(20001, &type), RP_OK);
    OK(rp_plugin_load(copy_as(BUILT "plugin_dtypes.so", "types")));
    OK(rp_dtype_from_gguf(20001, &type));
    cr_expect_eq((int)type, RP_DTYPE_CUSTOM);
    OK(rp_quantize_row(type, x, 64, block));
    rp_dequantize_row(type, block, 64, y);
    cr_expect(y[0] == 1.0f && y[1] < -0.2f && y[1] > -0.3f);
    OK(rp_plugin_load(path));
    cr_expect_null(rp_dtype_info(RP_DTYPE_CUSTOM + 3), "the same file was called again");
    refuse(copy_as(BUILT "plugin_dtypes.so", "again"), RP_E_ARG, "plugin '%s': there is a type 'nf4'");
}

Test(plugin, registers_an_op_and_a_pattern) {
    ComputeGraph *g = rp_graph_new();
    ExecPlan     *plan;
    RpExecutor   *e;
    OK(rp_plugin_load(copy_as(BUILT "plugin_op.so", "op")));
    TensorNode *x = rp_graph_input(g, "x", RP_F32, (int64_t[]){4, 1, 1, 1}), *y = rp_scale(g, x, 0.5f, 0.0f);
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_graph_optimize(g, ""));
    cr_expect_str_eq(rp_node_op_name(y), "halve");
    OK(rp_plan_new(g, &plan));
    OK(rp_executor_open(plan, &(RpExecutorOptions){.device = "cpu", .n_threads = 1}, &e));
    memcpy(rp_executor_data(e, x), (float[]){2, 4, -6, 1}, 16);
    OK(rp_executor_run(e));
    const float *out = rp_executor_data(e, y);
    cr_expect(out[0] == 1.0f && out[1] == 2.0f && out[2] == -3.0f && out[3] == 0.5f);
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
}

Test(plugin, shared_objects_that_do_not_fit_are_refused) {
    refuse("types.so", RP_E_ARG, "plugin '%s': no path with a '/'");
    refuse("", RP_E_ARG, "plugin '%s': no path with a '/'");
    refuse("/no-such-folder/types.so", RP_E_NOT_AVAILABLE,
           "plugin '%s': its folder cannot be opened: No such file or directory");
    snprintf(path, sizeof path, "%s/absent.so", folder);
    refuse(path, RP_E_NOT_AVAILABLE, "plugin '%s': the file cannot be opened: No such file or directory");
    refuse(copy_as(BUILT "backend_handing.so", "backend"), RP_E_UNSUPPORTED,
           "plugin '%s': it has no function rp_plugin");
    refuse(copy_as(GOLDEN_DIR "tiny/llama-mix.gguf", "model"), RP_E_ARG, "plugin '%s': it is no shared object");
    copy_as(BUILT "plugin_dtypes.so", "types");
    cr_assert_eq(chmod(path, 0664), 0);
    refuse(path, RP_E_ARG, "plugin '%s': the file can be written by others (mode 664)");
    cr_assert_eq(chmod(path, 0644), 0);
    cr_assert_eq(chmod(folder, 0777), 0);
    refuse(path, RP_E_ARG, "plugin '%s': the folder can be written by others (mode 777)");
    cr_assert_eq(chmod(folder, 0700), 0);
    OK(rp_plugin_load(path)); /* what was refused has not been called */
    REFUSED(rp_plugin_load(NULL), RP_E_ARG, "rp_plugin_load: path is NULL");
}
