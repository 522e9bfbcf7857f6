// ptx.h - an interpreter of the PTX that nvcc emits: the data structures that its files share.
//
//     text --parse--> Body: statements, registers, symbols       ptx_parse.cpp, ptx_lex.cpp
//          --flow---> blocks, post-dominators, register slots     ptx_flow.cpp, ptx_slots.cpp
//          --decode-> Kernel: Inst[], one function pointer each   ptx_decode.cpp, ptx_{int,float,convert,move,memory,
//                                                                 atomic,warp,mma}.cpp
//          --run----> grid, blocks, warps of 32 lanes             ptx_run.cpp
//     host function of a launch -> its entry                      ptx_launch.cpp, ptx_symbols.cpp
//
// Section numbers in comments are those of the PTX ISA 9.0.
//
// A warp executes in lock step; a slot holds one register of all lanes, so one instruction is a loop over 32
// consecutive values:
//
//     slot of a 32-bit register:  lane 0 | lane 1 | ... | lane 31       128 bytes (16 bits: 64, 64 bits: 256)
//     slot of a predicate:        one word, bit l is lane l
//
// Addresses: global memory is the host's, at the same address. The other state spaces are windows of the
// generic address space, of which the top byte says which:
//
//     0x00...  global        0x01...  shared        0x02...  local        0x03...  kernel parameters
#ifndef TESTS_PTX_PTX_H
#define TESTS_PTX_PTX_H
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {
using std::string;
using std::string_view;
using std::vector;

enum class Type : uint8_t {
    none,
    pred,
    b8,
    u8,
    s8,
    b16,
    u16,
    s16,
    f16,
    bf16,
    b32,
    u32,
    s32,
    f32,
    f16x2,
    bf16x2,
    b64,
    u64,
    s64,
    f64
};
Type type_of(string_view name); // none if it is not the name of a type
int  bytes_of(Type t);
bool is_signed(Type t);
bool is_float(Type t);

enum class Space : uint8_t { generic, global, shared, local, param, constant };
enum : uint64_t { WINDOW = 1ull << 56 };
enum : uint32_t { NOWHERE = 0xffffffffu, ALL_LANES = 0xffffffffu, SHARED_FIRST = 1024, LOCAL_FIRST = 64 };

// A named place. Shared, local and param: `at` counts from the start of the space; global: an address of the
// host.
struct Symbol {
    Space    space;
    uint64_t at;
    size_t   bytes;
    bool     dynamic; // shared memory whose size the launch gives
};

struct Operand {
    enum Kind : uint8_t { REG, NUMBER, ADDRESS, SYMBOL, VECTOR, WORD } kind = WORD;
    bool            inverted                                                = false; // !%p
    int             reg                                                     = -1; // REG; ADDRESS: base register or -1
    int             pair                                                    = -1; // the predicate p of d|p
    uint64_t        number                                                  = 0;  // value; ADDRESS: offset
    char            literal = 0; // NUMBER: 'f' or 'd' for a float of that many bits, else 0
    const Symbol   *symbol  = nullptr;
    string_view     word; // label, function or special register
    vector<Operand> list;
};
struct Statement {
    string_view     op;
    int             guard     = -1;
    bool            guard_not = false;
    vector<Operand> args;
    int             file = 0, line = 0;
    int             target = -1; // of a branch: index of a statement
};
// One kernel with the functions it calls inlined: a call becomes moves, the callee's statements and a jump.
struct Body {
    string                               name;
    vector<Statement>                    code;
    vector<Type>                         regs; // by register number
    std::vector<std::unique_ptr<Symbol>> symbols;
    vector<size_t>                       param_at, param_bytes;
    size_t                               shared_bytes = 0, local_bytes = 0, params_bytes = 0;
    unsigned                             max_threads = 0;
};

// ---- executable form ----
struct Ranges { // of global memory
    uint64_t lo = 1, hi = 0;
    char    *written = nullptr; // a byte for each byte, 0: never written; null: unknown, taken as written
};
struct Warp;
struct Inst;
typedef void Exec(Warp &w, const Inst &i, uint32_t lanes);
enum InstFlags : uint8_t { INST_MEMORY = 1, INST_STORE = 2, INST_PSEUDO = 4, INST_BRANCH = 8 };
// Operands are byte offsets of slots; negative ones lie in the kernel's constants (Warp::at).
struct Inst {
    Exec    *run;
    int32_t  guard; // slot of the guard predicate, -1 if none
    bool     guard_not;
    uint8_t  flags, bytes, count; // memory: bytes of an element, number of elements
    Space    space;
    uint8_t  wide; // memory: the base register has 64 bits
    uint8_t  sub;  // variant, known to run()
    int32_t  d[4], s[4];
    int64_t  offset;
    uint32_t target, join;
    uint32_t statement; // index into Body::code
};
struct Kernel {
    Body                  body;
    vector<Inst>          code;
    vector<char>          constants;
    vector<int32_t>       more; // slots of instructions that have more operands than Inst (mma)
    size_t                reg_bytes = 0;
    vector<Ranges>        variables;      // .global and .const of the module
    vector<int32_t>       init_slots;     // masks of lanes that have written a register
    unsigned              live_words = 0; // most 32-bit words of registers live at once
    std::map<int, string> files;
    string                where(uint32_t pc) const; // "file.cu:12"
    string                text(uint32_t pc) const;  // the opcode
};
struct Launch;
struct Block;
enum class State : uint8_t { ready, barrier, yields, done };
struct Frame { // an entry of the reconvergence stack
    uint32_t pc, join, lanes;
};
struct Warp {
    char         *regs;
    const char   *constants;
    const Kernel *kernel;
    Block        *block;
    uint32_t      pc, join, lanes; // the running path: next instruction, where it ends, its lanes
    uint32_t      live;            // lanes that have not returned
    uint32_t      exist, carry;    // carry: CC.CF of each lane
    unsigned      id;
    State         state;
    uint32_t      barrier, barrier_threads;
    uint32_t      votes;     // bar.red: lanes whose predicate is true
    const Inst   *reduction; // bar.red; null: bar.sync
    vector<Frame> stack;
    vector<char>  reg_store, local, local_init;
    uint64_t      address[32]; // of the last memory instruction; cp.async: of its source
    uint64_t      target[32];  // of the last cp.async, in shared memory
    struct Pending {           // cp.async
        char       *dst;
        const char *src;
        int         bytes, zero;
    };
    vector<Pending> copies;
    vector<size_t>  groups;
    uint32_t        epoch = 0; // barriers of the warp so far
    uint64_t        steps = 0; // instructions since the start of the block

    template <class T> T       *reg(int32_t slot) { return reinterpret_cast<T *>(regs + slot); }
    template <class T> const T *at(int32_t slot) const {
        return reinterpret_cast<const T *>((slot < 0 ? constants : regs) + (slot & 0x7fffffff));
    }
};
// Records of accesses (ptx_race.cpp).
struct Touch {
    uint32_t epoch = 0, warp_epoch = 0; // epoch 0: none
    uint16_t thread = 0;
    bool     many = false, atomic = false; // many: further lanes of the warp, in the same epochs
};
struct SharedCell {
    Touch write, read[2];
    bool  split = false; // its bytes have records of their own
};
struct SharedShadow {
    vector<SharedCell> words, bytes;
    uint32_t           epoch = 0;
};
struct GlobalShadow {
    enum : uint64_t { PAGE = 1024 };
    struct Cell { // of one byte; stamp: n_executed at the store, 0: not written
        uint32_t block, epoch, warp;
        uint64_t stamp;
    };
    struct Fence {
        uint32_t epoch;
        uint64_t stamp;
    };
    uint32_t         warps;             // of a block
    vector<Fence>    fences, published; // of each warp of the grid: its last fence, that before a strong access
    vector<uint32_t> newest;            // of each block: the largest epoch of a published fence
    std::map<uint64_t, std::unique_ptr<Cell[]>> pages;
    uint64_t                                    lo = ~0ull, hi = 0, last_page = 0;
    Cell                                       *last = nullptr;
    GlobalShadow(uint32_t n_blocks, uint32_t n_warps);
    Cell *find(uint64_t a);
    void  store(uint64_t a, const Cell &c, size_t bytes);
};
struct Block {
    Launch                      *launch;
    uint32_t                     x, y, z;
    bool                         waited; // griddepcontrol.wait was executed
    vector<char>                 shared, shared_init;
    vector<Warp>                 warps;
    std::map<uint32_t, uint32_t> arrived; // by barrier: threads of bar.arrive
    SharedShadow                 shadow;
    bool                         strong = false, acquired = false; // a strong load; a fence behind it
    uint64_t                     fenced = 0;                       // stamp of the last fence
};
// Sees every warp instruction after it was executed, with no lanes if its guard is false in all of them. `address`
// holds one generic address per active lane of a memory instruction, else it is null.
struct Observer {
    virtual ~Observer() {}
    virtual void instruction(const Warp &w, const Inst &i, uint32_t lanes, const uint64_t *address) = 0;
};
// Bounds of the allocation of global memory that contains address a; false if there is none.
typedef bool FindRange(uint64_t a, uint64_t *lo, uint64_t *hi);
// The marks of that allocation: Ranges::written.
typedef char *FindMarks(uint64_t a);
struct Launch {
    const Kernel *kernel  = nullptr;
    uint32_t      grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
    uint32_t      dynamic_shared = 0;
    bool          cooperative = false, dependent = false; // dependent: programmatic dependent launch
    vector<char>  params;
    int           policy   = 0; // order of blocks and warps: 0 forward, 1 reversed, 2 random
    uint64_t      seed     = 1;
    FindRange    *find     = nullptr;
    FindMarks    *marks    = nullptr;
    Observer     *observer = nullptr;
    bool          races = true; // report races (ptx_race.cpp); not where counters are set to count the tail of a kernel
    const vector<uint32_t> *only = nullptr; // numbers of the blocks to run; null: all
    Ranges                  recent[4];
    unsigned                next_recent = 0;

    const char *name             = nullptr;
    void (*waited)(const char *) = nullptr; // called with the name when the first block has waited for earlier kernels

    std::shared_ptr<GlobalShadow> written; // null: nothing yet
};
void            run(Launch &l);
extern uint64_t n_executed; // warp instructions so far

// A file of PTX. Entries are decoded when they are first asked for.
class Module {
  public:
    explicit Module(string text);
    ~Module();
    const Kernel  *kernel(const string &name);
    vector<string> entries() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl;
};

// ---- errors: a line on stderr, then the process ends with status 99 ----
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void fail_at(const Warp &w, int lane, const char *format, ...) __attribute__((format(printf, 3, 4)));

// ---- between the files ----
struct ModuleText; // ptx_parse.cpp
void   parse_body(const ModuleText &m, const string &name, Body &body);
size_t align_up(size_t n, size_t a);

struct Registers { // where each register lives
    vector<int32_t> slot;
    vector<int32_t> init; // slot of its mask of initialised lanes, -1 if no path reads it before a write
    size_t          bytes      = 0;
    unsigned        live_words = 0;
};
void             definitions(const Statement &s, vector<int> &defs, vector<int> &uses);
vector<uint32_t> immediate_post_dominators(const Body &b); // for each branch: the statement where paths join
Registers        assign_slots(const Body &b);

// Changes of the operands before an instruction and of its result after it that its own function does not make
// (ptx_around.cpp).
struct Around {
    Type    source = Type::none, result = Type::none; // of the operands concerned
    uint8_t flush        = 0;                         // bit k: subnormals of source k become zeros
    bool    flush_result = false, saturate = false, relu = false;
};
struct Decoder { // one statement on its way to an Inst
    Kernel             &k;
    const Statement    &s;
    const Registers    &regs;
    Inst                i{};
    vector<string_view> parts; // the opcode split at its dots
    Around              around{};
    bool                has(string_view part) const;
    Type                type(int from_end = 0) const; // the last type suffix, the one before it, ...
    int32_t             dst(size_t arg, int bytes);
    int32_t             dst_of(int reg, int bytes);
    int32_t             src(size_t arg, Type t); // slot or constant with the bytes of t
    int32_t             src_of(const Operand &o, int bytes);
    int32_t             constant(uint64_t value, int bytes);
    uint64_t            symbol_value(const Symbol &y) const;
    void                address(const Operand &o, Space space);
    [[noreturn]] void   bad(const char *why) const;
};
typedef Exec *DecodeFn(Decoder &d); // fills d.i; null if there is no such form
DecodeFn decode_int, decode_float, decode_convert, decode_move, decode_memory, decode_atomic, decode_warp, decode_mma,
    decode_flow;
void decode(Kernel &k);
enum : int { N_SCRATCH = 3 };                                // slots behind the registers, of 128 bytes
void before(Decoder &d, int32_t scratch, vector<Inst> &out); // redirects the sources of d.i
void after(const Decoder &d, vector<Inst> &out);
Inst pseudo(const Inst &of, Exec *run, int32_t slot);

// Memory at a.address for a warp's lanes: checks bounds, alignment and initialisation, and gives host pointers.
void   resolve(Warp &w, const Inst &i, uint32_t lanes, bool write, char **host);
void   leave(Warp &w, uint32_t lanes);   // the lanes return
bool   switch_path(Warp &w, bool split); // another path of the warp runs; false: there is none
void   finish_reduction(Warp &w, uint32_t true_threads, uint32_t threads); // the result of bar.red
double multiply_adds(const Kernel &k, const Inst &i);                      // of an mma; 0: another instruction
void   pop_path(Warp &w);
} // namespace ptx
#endif
