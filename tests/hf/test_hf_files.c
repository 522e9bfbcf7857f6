/* Hostile and damaged directories: each is refused with a status and a text that names file and tensor. The
 * directories are made of tests/golden/hf/llama with one file changed, or of files written byte by byte. */
#include "tests/support/case.h"
#include "tests/support/hf_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/text/json_read.h"

static const char *in_folder(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_text(const char *name, const char *text) { hf_write(name, text, strlen(text)); }

/* A file of weights with this header, padded with spaces; its data are zeros. */
static void write_weights(const char *name, const char *header, size_t data) {
    const size_t   n   = (strlen(header) + 7) / 8 * 8;
    const uint64_t len = n;
    char          *p   = calloc(1, 8 + n + data);
    cr_assert_not_null(p);
    memset(p, ' ', 8 + n);
    memcpy(p, &len, 8);
    memcpy(p + 8, header, strlen(header));
    hf_write(name, p, 8 + n + data);
    free(p);
}

static void refuse_header(const char *header, size_t data, const char *text) {
    write_weights("model.safetensors", header, data);
    REFUSED(hf_open(), RP_E_FORMAT, text);
    cr_expect_not_null(strstr(rp_last_error(), "model.safetensors"), "%s", rp_last_error());
}

#define TENSOR(name, dtype, shape, offsets)                                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

Test(hf_files, bad_headers_of_weights) {
    hf_begin();
    hf_copy("hf/llama", "config.json");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[0,16]") "," TENSOR("b", "F32", "[4]", "[8,24]") "}", 24,
                  "tensor b: its data overlap with those of another tensor");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[0,16]") "," TENSOR("b", "F32", "[4]", "[0,16]") "}", 16,
                  "its data overlap with those of another tensor");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[0,16]") "," TENSOR("b", "F32", "[4]", "[20,36]") "}", 36,
                  "there is a gap in front of its data");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[4,20]") "}", 20, "there is a gap in front of its data");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[0,16]") "}", 20, "4 bytes behind the last tensor belong to none");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[0,16]") "}", 12,
                  "tensor a: its data end at byte 80, past the end of the file (76 bytes; truncated?)");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[9223372036854775800,9223372036854775816]") "}", 16,
                  "data_offsets are not two whole numbers");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[9223372036854775000,9223372036854775016]") "}", 16, "past the end");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[16,0]") "}", 16, "shape and data_offsets differ in size");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[0,12]") "}", 16, "shape and data_offsets differ in size");
    refuse_header("{" TENSOR("a", "F32", "[-4]", "[0,16]") "}", 16, "a dimension is not a whole number");
    refuse_header("{" TENSOR("a", "F32", "[4.0]", "[0,16]") "}", 16, "a dimension is not a whole number");
    refuse_header("{" TENSOR("a", "F32", "[0]", "[0,0]") "}", 0, "a dimension is 0");
    refuse_header("{" TENSOR("a", "F32", "[4294967296,4294967296]", "[0,16]") "}", 16, "its size overflows");
    refuse_header("{" TENSOR("a", "F32", "[1,1,1,1,8]", "[0,16]") "}", 16, "shape and data_offsets differ in size");
    refuse_header("{" TENSOR("a", "F32", "[65536,65536,1,65536,65536]", "[0,16]") "}", 16, "its size overflows");
    refuse_header("{" TENSOR("a", "F32", "{}", "[0,16]") "}", 16, "has no shape");
    write_weights("model.safetensors", "{" TENSOR("a", "Q9", "[4]", "[0,16]") "}", 16);
    REFUSED(hf_open(), RP_E_UNSUPPORTED, "model.safetensors: tensor a is of the unknown type 'Q9'");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[0,16,32]") "}", 16, "data_offsets are not two whole numbers");
    refuse_header("{" TENSOR("a", "F32", "[4]", "[0,16]") "," TENSOR("a", "F32", "[4]", "[0,16]") "}", 16,
                  "\"a\" occurs twice");
    refuse_header("{" TENSOR("", "F32", "[4]", "[0,16]") "}", 16, "a name of 0 bytes is no name of a tensor");
    refuse_header("{" TENSOR("a\\u0000b", "F32", "[4]", "[0,16]") "}", 16, "is no name of a tensor");
    refuse_header("{\"a\":7}", 0, "its entry is no object");
    refuse_header("[]", 0, "the header is no JSON object");
    refuse_header("{\"a\":", 0, "the text ends");
    refuse_header("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", 0,
                  "JSON: values are nested too deeply at byte 33");
    hf_write("model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    REFUSED(hf_open(), RP_E_FORMAT, "a header of 18446744073709551615 bytes does not fit into 10 bytes (truncated?)");
    hf_write("model.safetensors", "\x02\0\0", 3);
    REFUSED(hf_open(), RP_E_FORMAT, "3 bytes are no safetensors file (truncated?)");
    hf_write("model.safetensors", "", 0);
    REFUSED(hf_open(), RP_E_FORMAT, "the file is empty");
    hf_end();
}

/* Convolutions of images and their time have 5 dimensions. */
Test(hf_files, tensors_that_are_not_read_may_have_more_than_4_dimensions) {
    hf_begin();
    hf_copy("hf/llama", "config.json");
    hf_add_tensor("hf/llama", "model.visual.patch_embed.proj.weight", "BF16", "[4,3,2,2,2]", 192);
    OK(hf_open());
    hf_add_tensor("hf/llama", "model.visual.patch_embed.proj.weight", "BF16", "[1,1,1,1,1,1,1,1,96]", 192);
    OK(hf_open());
    hf_add_tensor("hf/llama", "model.patch_embed.proj.weight", "BF16", "[4,3,2,2,2]", 192);
    REFUSED(hf_open(), RP_E_UNSUPPORTED, "does not use 1 of the tensors, first model.patch_embed.proj.weight");
    hf_add_tensor("hf/llama", "model.layers.0.self_attn.q_proj.bias", "BF16", "[4,3,2,2,2]", 192);
    REFUSED(hf_open(), RP_E_FORMAT,
            "tensor model.layers.0.self_attn.q_proj.bias (blk.0.attn_q.bias): has more than 4 dimensions");
    hf_end();
}

/* Beside weights in FP8: activations are not computed in FP8. */
Test(hf_files, scales_of_activations_are_not_read) {
    hf_begin();
    hf_copy("hf/llama-fp8-scalar", "config.json");
    hf_add_tensor("hf/llama-fp8-scalar", "model.layers.0.mlp.down_proj.activation_scale", "F32", "[]", 4);
    OK(hf_open());
    hf_copy("hf/llama", "config.json");
    hf_add_tensor("hf/llama", "model.layers.0.mlp.down_proj.activation_scale", "F32", "[]", 4);
    REFUSED(hf_open(), RP_E_UNSUPPORTED,
            "does not use 1 of the tensors, first model.layers.0.mlp.down_proj.activation_scale");
    hf_end();
}

Test(hf_files, a_file_that_ends_anywhere_is_refused) {
    hf_begin();
    hf_copy("hf/llama", "config.json");
    size_t   n;
    uint64_t header;
    char    *p = hf_read_golden("hf/llama", "model.safetensors", &n);
    memcpy(&header, p, sizeof header);
    for (size_t cut = 1; cut < 8 + header + 64; cut++) {
        hf_write("model.safetensors", p, cut);
        cr_expect_eq(hf_open(), RP_E_FORMAT, "%zu bytes: %s", cut, rp_last_error());
        cr_expect_not_null(strstr(rp_last_error(), "model.safetensors"), "%zu bytes: %s", cut, rp_last_error());
    }
    hf_write("model.safetensors", p, n - 1);
    REFUSED(hf_open(), RP_E_FORMAT, "past the end of the file");
    hf_write("model.safetensors", p, n);
    OK(hf_open());
    free(p);
    p = hf_read_golden("hf/llama", "config.json", &n);
    for (size_t cut = 0; cut + 2 < n; cut++) {
        hf_write("config.json", p, cut);
        cr_expect_eq(hf_open(), RP_E_FORMAT, "%zu bytes: %s", cut, rp_last_error());
    }
    free(p);
    hf_end();
}

static void use_index(const char *map) {
    char text[1024];
    snprintf(text, sizeof text, "{\"metadata\":{},\"weight_map\":%s}", map);
    write_text("model.safetensors.index.json", text);
}

Test(hf_files, shards) {
    static const char header[] = "{" TENSOR("a", "F32", "[4]", "[0,16]") "}";
    hf_begin();
    REFUSED(hf_open(), RP_E_IO, "there is no config.json: this is no model of Hugging Face");
    hf_copy("hf/llama", "config.json");
    REFUSED(hf_open(), RP_E_IO, "there is neither model.safetensors nor model.safetensors.index.json");
    use_index("{\"a\":\"../model.safetensors\"}");
    REFUSED(hf_open(), RP_E_FORMAT, "'../model.safetensors' is no name of a file in this directory");
    use_index("{\"a\":\"/etc/x.safetensors\"}");
    REFUSED(hf_open(), RP_E_FORMAT, "is no name of a file in this directory");
    use_index("{\"a\":\"folder/x.safetensors\"}");
    REFUSED(hf_open(), RP_E_FORMAT, "'folder/x.safetensors' is no name of a file in this directory");
    use_index("{\"a\":\"..\"}");
    REFUSED(hf_open(), RP_E_FORMAT, "'..' is no name of a file of safetensors");
    use_index("{\"a\":\"tokenizer.json\"}");
    REFUSED(hf_open(), RP_E_FORMAT, "is no name of a file of safetensors");
    use_index("{\"a\":7}");
    REFUSED(hf_open(), RP_E_FORMAT, "an entry of weight_map is no name of a file");
    use_index("{\"a\":\"x\\u0000.safetensors\"}");
    REFUSED(hf_open(), RP_E_FORMAT, "an entry of weight_map is no name of a file");
    use_index("{\"a\":\"one.safetensors\"}");
    REFUSED(hf_open(), RP_E_IO, "one.safetensors: No such file");
    write_weights("one.safetensors", header, 16);
    use_index("{\"b\":\"one.safetensors\"}");
    REFUSED(hf_open(), RP_E_FORMAT, "tensor b is not in one.safetensors");
    write_weights("two.safetensors", header, 16);
    use_index("{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}");
    REFUSED(hf_open(), RP_E_FORMAT, "tensor a lies in two files");
    write_text("model.safetensors.index.json", "{}");
    REFUSED(hf_open(), RP_E_FORMAT, "weight_map is missing");
    write_text("model.safetensors.index.json", "[]");
    REFUSED(hf_open(), RP_E_FORMAT, "this is no JSON object");
    hf_end();
}

Test(hf_files, links) {
    char target[512];
    hf_begin();
    hf_copy("hf/llama", "config.json");
    snprintf(target, sizeof target, GOLDEN_DIR "hf/llama/model.safetensors");
    cr_assert_eq(symlink(target, in_folder("model.safetensors")), 0);
    REFUSED(hf_open(), RP_E_FORMAT, "model.safetensors: this link leads out of the directory");
    cr_assert_eq(unlink(in_folder("model.safetensors")), 0);
    cr_assert_eq(symlink("nowhere", in_folder("model.safetensors")), 0);
    REFUSED(hf_open(), RP_E_IO, "model.safetensors: No such file");
    cr_assert_eq(unlink(in_folder("model.safetensors")), 0);
    hf_copy("hf/llama", "model.safetensors");
    cr_assert_eq(rename(in_folder("model.safetensors"), "/tmp/reprise-hf-moved"), 0);
    cr_assert_eq(rename("/tmp/reprise-hf-moved", in_folder("other.bin")), 0);
    cr_assert_eq(symlink("other.bin", in_folder("model.safetensors")), 0);
    OK(hf_open());
    cr_assert_eq(unlink(in_folder("model.safetensors")), 0);
    cr_assert_eq(mkfifo(in_folder("model.safetensors"), 0600), 0);
    REFUSED(hf_open(), RP_E_IO, "not a regular file");
    hf_end();
}

/* The cache of huggingface_hub: models--x/snapshots/REVISION/file is a link to ../../blobs/HASH. */
Test(hf_files, links_of_the_cache_to_its_blobs) {
    static const char *const names[] = {"config.json", "model.safetensors"};
    char                     top[64], target[256];
    hf_begin();
    snprintf(top, sizeof top, "%s", folder);
    cr_assert_eq(mkdir(in_folder("blobs"), 0700), 0);
    cr_assert_eq(mkdir(in_folder("snapshots"), 0700), 0);
    cr_assert_eq(mkdir(in_folder("snapshots/r"), 0700), 0);
    for (int i = 0; i < 2; i++) {
        size_t n;
        char  *p = hf_read_golden("hf/llama", names[i], &n), name[128];
        snprintf(name, sizeof name, "blobs/%d", i);
        hf_write(name, p, n);
        snprintf(name, sizeof name, "snapshots/r/%s", names[i]);
        snprintf(target, sizeof target, "../../blobs/%d", i);
        cr_assert_eq(symlink(target, in_folder(name)), 0, CASE(i));
        free(p);
    }
    snprintf(folder, sizeof folder, "%.40s/snapshots/r", top);
    OK(hf_open());
    cr_assert_eq(unlink(in_folder("model.safetensors")), 0);
    cr_assert_eq(symlink("../../../../etc/passwd", in_folder("model.safetensors")), 0);
    REFUSED(hf_open(), RP_E_FORMAT, "leads out of the directory");
    snprintf(folder, sizeof folder, "%s", top);
    hf_end();
}

/* config.json of the llama with one text replaced. */
static void refuse_config(const char *from, const char *to, RpStatus status, const char *text) {
    size_t n;
    char  *p  = hf_read_golden("hf/llama", "config.json", &n), changed[8192];
    char  *at = strstr(p, from);
    cr_assert_not_null(at, "%s", from);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - p), p, to, at + strlen(from));
    write_text("config.json", changed);
    REFUSED(hf_open(), status, text);
    free(p);
}

Test(hf_files, bad_configurations) {
    hf_begin();
    hf_copy("hf/llama", "model.safetensors");
    refuse_config("LlamaForCausalLM", "NoSuchModel", RP_E_UNSUPPORTED, "architecture 'NoSuchModel' is not supported");
    refuse_config("\"architectures\"", "\"a\"", RP_E_FORMAT, "architectures is missing");
    refuse_config("\"silu\"", "\"relu\"", RP_E_UNSUPPORTED, "hidden_act 'relu' is not supported (llama computes silu)");
    refuse_config("\"hidden_size\": 32", "\"hidden_size\": 3.5", RP_E_FORMAT,
                  "hidden_size is 3.5, must be a whole number from 0 to 2^31-1");
    refuse_config("\"hidden_size\": 32", "\"hidden_size\": 1e999", RP_E_FORMAT, "hidden_size is no finite number");
    refuse_config("\"hidden_size\": 32", "\"hidden_size\": \"32\"", RP_E_FORMAT, "hidden_size is no finite number");
    refuse_config("\"hidden_size\": 32", "\"hidden_size\": 64", RP_E_SHAPE,
                  "must be [64,any] (model.embed_tokens.weight)");
    refuse_config("\"hidden_size\": 32,", "\"hidden_size\": 32, \"hidden_size\": 32,", RP_E_FORMAT,
                  "\"hidden_size\" occurs twice");
    refuse_config("\"num_attention_heads\": 4", "\"num_attention_heads\": 0", RP_E_FORMAT, "num_attention_heads is 0");
    refuse_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0", RP_E_FORMAT,
                  "llama.block_count is 0, must be from 1 to 4096 (num_hidden_layers in config.json)");
    refuse_config("\"head_dim\": 8", "\"head_dim\": 2048", RP_E_FORMAT,
                  "llama.attention.key_length is 2048, must be from 1 to 1024 (head_dim in config.json)");
    refuse_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", RP_E_UNSUPPORTED,
                  "does not use 9 of the tensors");
    refuse_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", RP_E_FORMAT,
                  "tensor blk.2.attn_norm.weight is missing (input_layernorm.weight of layer 2)");
    refuse_config("\"rope_type\": \"default\"", "\"rope_type\": \"longrope\"", RP_E_UNSUPPORTED,
                  "rope_type 'longrope' is not supported (there are default, dynamic, linear, llama3, yarn, "
                  "longrope of Phi3, and proportional of Gemma4)");
    refuse_config("\"rope_type\": \"default\"", "\"rope_type\": \"linear\"", RP_E_FORMAT, "factor is missing");
    refuse_config("\"vocab_size\"", "\"partial_rotary_factor\": 0.5, \"vocab_size\"", RP_E_UNSUPPORTED,
                  "partial_rotary_factor: RoPE of a part of a head is not supported");
    refuse_config("\"vocab_size\"", "\"quantization_config\": {\"quant_method\": \"gptq\"}, \"vocab_size\"",
                  RP_E_UNSUPPORTED, "quant_method 'gptq' is not supported (fp8 and mxfp4 are): take a GGUF file");
    refuse_config("\"vocab_size\"", "\"quantization_config\": {\"load_in_4bit\": true}, \"vocab_size\"",
                  RP_E_UNSUPPORTED, "quant_method 'bitsandbytes' is not supported");
    refuse_config("\"vocab_size\"", "\"quantization_config\": {}, \"vocab_size\"", RP_E_UNSUPPORTED,
                  "quant_method '' is not supported");
    refuse_config(
        "\"vocab_size\"", "\"quantization\": {\"group_size\": 64, \"bits\": 4}, \"vocab_size\"", RP_E_UNSUPPORTED,
        "quantization: the quantisation of MLX is not supported: take a GGUF file of the model, or its weights "
        "before this quantisation");
    write_text("hf_quant_config.json", "{}");
    refuse_config(
        "\"vocab_size\"", "\"vocab_size\"", RP_E_UNSUPPORTED,
        "/hf_quant_config.json: the quantisation of ModelOpt is not supported: take a GGUF file of the model");
    hf_end();
}

/* Files that a download has left in place of others. */
Test(hf_files, files_that_are_something_else) {
    static const char        pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    static const char *const names[]   = {"config.json", "model.safetensors", "tokenizer.json"};
    static const char *const texts[]   = {"{\"error\":\"Invalid credentials\"}", "Entry not found", "<!doctype html>"};
    hf_begin();
    for (int i = 0; i < 3; i++) {
        char want[128];
        hf_copy("hf/llama", "config.json");
        hf_copy("hf/llama", "model.safetensors");
        write_text(names[i], pointer);
        snprintf(want, sizeof want, "%s: this is a Git LFS pointer; fetch the file itself (git lfs pull)", names[i]);
        REFUSED(hf_open(), RP_E_FORMAT, want);
        write_text(names[i], texts[i]);
        snprintf(want, sizeof want, "%s: this is %s; the download went wrong", names[i],
                 i == 2 ? "an HTML page" : "an error message of a server");
        REFUSED(hf_open(), RP_E_FORMAT, want);
    }
    hf_end();
}

/* The files of a directory that is no model of Hugging Face, and what the error says. */
Test(hf_files, directories_of_other_formats) {
    static const struct {
        const char *name, *want;
    } without_config[] =
        {
            {"x.txt",               "this is no model of Hugging Face"                                      },
            {"params.json",
             "params.json is of the format of Mistral or Meta: take the files in the format of Hugging Face"},
            {"model_index.json",    "model_index.json is of a pipeline of diffusers, which is not supported"},
            {"adapter_config.json",
             "adapter_config.json is of an adapter of PEFT: make a GGUF file of it with llama.cpp's "
             "convert_lora_to_gguf.py, for --lora"                                                          },
            {"b.gguf",              "b.gguf is a GGUF file: give its path instead of that of the directory" },
            {"a.gguf",              "a.gguf is a GGUF file: give its path"                                  },
    },
      without_weights[] = {
          {"x.txt", "this is no model of Hugging Face"},
          {"flax_model.msgpack", "flax_model.msgpack is not read: convert the weights to safetensors"},
          {"pytorch_model.bin.index.json", "pytorch_model.bin.index.json is not read: convert the weights to"},
          {"pytorch_model.bin", "pytorch_model.bin is not read: convert the weights to safetensors"},
          {"consolidated.safetensors", "consolidated.safetensors is of the format of Mistral or Meta"},
          {"model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors needs model.safetensors.index.json"},
          {"model.gguf", "model.gguf is a GGUF file: give its path"},
      };
    hf_begin();
    for (size_t i = 0; i < sizeof without_config / sizeof *without_config; i++) {
        write_text(without_config[i].name, "{}");
        write_text("mmproj-a.gguf", "");
        REFUSED(hf_open(), RP_E_IO, "there is no config.json: ");
        REFUSED(hf_open(), RP_E_IO, without_config[i].want);
    }
    hf_end();
    hf_begin();
    hf_copy("hf/llama", "config.json");
    for (size_t i = 0; i < sizeof without_weights / sizeof *without_weights; i++) {
        write_text(without_weights[i].name, "");
        REFUSED(hf_open(), RP_E_IO, "there is neither model.safetensors nor model.safetensors.index.json: ");
        REFUSED(hf_open(), RP_E_IO, without_weights[i].want);
    }
    hf_end();
}

/* A tensor that no row of the table knows could matter for the results. */
Test(hf_files, unknown_tensors_are_refused) {
    hf_begin();
    hf_copy("hf/llama", "config.json");
    size_t   n;
    uint64_t header;
    char    *p = hf_read_golden("hf/llama", "model.safetensors", &n);
    memcpy(&header, p, sizeof header);
    char *at = memmem(p, n, "layers.1.mlp.up_proj", 20);
    cr_assert_not_null(at);
    memcpy(at, "layers.1.mlp.xx_proj", 20);
    hf_write("model.safetensors", p, n);
    REFUSED(hf_open(), RP_E_FORMAT, "tensor blk.1.ffn_up.weight is missing (mlp.up_proj.weight of layer 1)");
    memcpy(at, "layers.7.mlp.up_proj", 20);
    hf_write("model.safetensors", p, n);
    REFUSED(hf_open(), RP_E_FORMAT, "tensor blk.1.ffn_up.weight is missing");
    free(p);
    hf_end();
}

/* Matrices are the mapped file itself, beyond the first MiB, which is read with the header. */
Test(hf_files, matrices_are_mapped_and_not_copied) {
    enum { ROWS = 3 << 20 };
    char        header[256], *line = NULL;
    size_t      size = 0;
    RpGgufFile *f;
    bool        found = false;
    hf_begin();
    hf_copy("hf/llama", "config.json");
    snprintf(header, sizeof header,
             "{" TENSOR("lm_head.weight", "F32", "[%d,1]", "[0,%d]") "," TENSOR("model.embed_tokens.weight", "F32",
                                                                                "[2,%d]", "[%d,%d]") "}",
             ROWS, 4 * ROWS, ROWS, 4 * ROWS, 12 * ROWS);
    write_weights("model.safetensors", header, 12 * ROWS);
    OK(rp_gguf_open(folder, &f));
    const RpGgufTensor *t = rp_gguf_find_tensor(f, "token_embd.weight");
    cr_assert_not_null(t);
    const uintptr_t at   = (uintptr_t)t->view.data;
    FILE           *maps = fopen("/proc/self/maps", "r");
    cr_assert_not_null(maps);
    while (getline(&line, &size, maps) > 0) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && at >= from && at < to)
            found = strstr(line, in_folder("model.safetensors")) != NULL;
    }
    cr_expect(found);
    fclose(maps);
    free(line);
    rp_gguf_close(f);
    hf_end();
}

Test(hf_files, no_output_replaces_a_file_of_the_directory) {
    hf_begin();
    hf_copy("hf/llama", "config.json");
    hf_copy("hf/llama", "model.safetensors");
    REFUSED(rp_requantize(folder, in_folder("model.safetensors"), "F32", NULL, NULL), RP_E_ARG,
            "an output must not be an input");
    REFUSED(rp_requantize(folder, in_folder("config.json"), "F32", NULL, NULL), RP_E_ARG,
            "an output must not be an input");
    hf_end();
}

/* The rows of q and k of a llama are in another order there. */
Test(hf_files, adapters_and_training_need_a_gguf_file) {
    static const char rows[] =
        " needs a GGUF file: the rows of q and k are in another order here (reprise quantize, or "
        "rp_requantize, makes one)";
    RpModel   *m;
    RpTrainer *t;
    OK(rp_model_open(GOLDEN_DIR "hf/llama", NULL, &m));
    REFUSED(rp_trainer_open(m, &(RpTrainOptions){.batch = 1, .seq = 8}, &t), RP_E_UNSUPPORTED, rows);
    REFUSED(rp_model_add_adapter(m, GOLDEN_DIR "lora/adapter.gguf", 1.0f), RP_E_UNSUPPORTED, rows);
    rp_model_free(m);
}

static void refuse_json(const char *text, const char *what) {
    Json j;
    REFUSED(rp_json_read("x.json", text, strlen(text), &j), RP_E_FORMAT, what);
    rp_json_free(&j);
}

Test(hf_files, json_that_is_none) {
    refuse_json("", "x.json: JSON: the text ends at byte 0");
    refuse_json("{", "a name is expected");
    refuse_json("{\"a\"}", "':' is expected");
    refuse_json("{\"a\":1,}", "a name is expected");
    refuse_json("{\"a\":1 \"b\":2}", "',' or '}' is expected");
    refuse_json("[1,]", "an unknown value");
    refuse_json("[1 2]", "',' or ']' is expected");
    refuse_json("[01]", "',' or ']' is expected");
    refuse_json("[1.]", "an unknown value");
    refuse_json("[1e]", "an unknown value");
    refuse_json("[-]", "an unknown value");
    refuse_json("[+1]", "an unknown value");
    refuse_json("nul", "an unknown value");
    refuse_json("\"a", "a string without an end");
    refuse_json("\"a\n\"", "a control character in a string");
    refuse_json("\"\\x\"", "an unknown escape");
    refuse_json("\"\\u12g4\"", "an unknown escape");
    refuse_json("\"\\ud800\"", "half of a surrogate pair");
    refuse_json("\"\\ud800\\u0041\"", "half of a surrogate pair");
    refuse_json("\"\\udc00\"", "half of a surrogate pair");
    refuse_json("\"\xff\"", "ill-formed UTF-8");
    refuse_json("\"\xed\xa0\x80\"", "ill-formed UTF-8");
    refuse_json("{\"a\":1,\"b\":2,\"\\u0061\":3}", "x.json: JSON: the name \"a\" occurs twice in one object");
    refuse_json("1 2", "text behind the value");
    Json j;
    REFUSED(rp_json_read("x.json", "{}", ((size_t)JSON_MAX_BYTES) + 1, &j), RP_E_FORMAT,
            "x.json: 268435457 bytes of JSON, at most 268435456 are read");
    rp_json_free(&j);
}

Test(hf_files, json_values) {
    static const char text[] = " {\"s\":\"a\\u00e9\\ud83d\\ude00\\n\",\"n\":-1.5e2,\"a\":[1,[2,{}],3],\"t\":true,\"z\":"
                               "null,\"i\":9223372036854775000}";
    Json              j;
    uint64_t          u;
    OK(rp_json_read("x.json", text, sizeof text - 1, &j));
    const JsonNode *root = j.nodes, *a = rp_json_get(&j, root, "a");
    cr_expect_eq(root->n, 6u);
    cr_expect(rp_json_is(&j, rp_json_get(&j, root, "s"), "a\xc3\xa9\xf0\x9f\x98\x80\n"));
    cr_expect_eq(rp_json_number(&j, rp_json_get(&j, root, "n")), -150.0);
    cr_expect_eq(a->n, 3u);
    const JsonNode *x = rp_json_next(&j, a, rp_json_next(&j, a, rp_json_first(&j, a)));
    cr_expect(rp_json_u63(&j, x, &u) && u == 3);
    cr_expect_null(rp_json_next(&j, a, x));
    cr_expect(rp_json_u63(&j, rp_json_get(&j, root, "i"), &u) && u == 9223372036854775000u);
    cr_expect(!rp_json_u63(&j, rp_json_get(&j, root, "n"), &u));
    cr_expect_null(rp_json_get(&j, root, "none"));
    rp_json_free(&j);
}
