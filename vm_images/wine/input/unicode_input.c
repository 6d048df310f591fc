/* Lets every character that the display's keyboard has reach Windows programs, in the order in which it was typed.
 *
 * Wine gives each key a virtual key code when a program starts, and runs out of them: there are about thirty for keys that a US keyboard
 * does not have. Of a further key it only reports VK_NONAME, which says nothing of the character, and the character is lost. Windows has
 * another way for characters that no key stands for, and Wine has it too: input with KEYEVENTF_UNICODE (SendInput, winuser.h),
 * which arrives as VK_PACKET and, translated, as the character. This library is loaded before Wine's own (LD_PRELOAD), notes
 * what Xlib says a key types, and turns VK_NONAME into that. Nothing else is touched, and the place in the queue stays the same.
 *
 * Where Wine's driver asks or sends in another way (it does from Wine 9 on), the library changes nothing.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { INPUT_KEYBOARD = 1, KEYEVENTF_KEYUP = 2, KEYEVENTF_UNICODE = 4, VK_NONAME = 0xFC };
enum { X_LOOKUP_CHARS = 2, X_LOOKUP_BOTH = 4 }; /* Xlib.h */
enum { MOST = 24 };

/* INPUT of winuser.h with its keyboard part, as 64-bit programs have it. */
struct input {
    uint32_t type;
    uint32_t unused;
    uint16_t key;
    uint16_t scan;
    uint32_t flags;
    uint32_t time;
    uint64_t extra;
    uint64_t longer_part; /* of the mouse */
};
_Static_assert(sizeof(struct input) == 40 && offsetof(struct input, key) == 8, "INPUT is 40 bytes long");

typedef int lookup_mb(void *, void *, char *, int, unsigned long *, int *);
typedef int lookup(void *, char *, int, unsigned long *, void *);
typedef int __attribute__((ms_abi)) send_input(void *, const struct input *, const void *);

/* What the key that this thread looked up last types, in UTF-8; of no length: it is not known. */
static __thread unsigned char text[MOST] __attribute__((tls_model("initial-exec")));
static __thread int length __attribute__((tls_model("initial-exec")));

struct wanted {
    const char *file;
    char path[4096];
};

static int is_wanted(struct dl_phdr_info *loaded, size_t size, void *argument)
{
    (void)size;
    struct wanted *wanted = argument;
    const char *name = strrchr(loaded->dlpi_name, '/');
    if (!name || strcmp(name + 1, wanted->file) != 0 || strlen(loaded->dlpi_name) >= sizeof wanted->path) return 0;
    strcpy(wanted->path, loaded->dlpi_name);
    return 1;
}

/* A function of a library that is loaded already, though not for everybody to see. Looked for by its path: Wine's have no other name. */
static void *other(const char *file, const char *name)
{
    struct wanted wanted = {file, ""};
    if (!dl_iterate_phdr(is_wanted, &wanted)) return NULL;
    void *handle = dlopen(wanted.path, RTLD_NOW | RTLD_NOLOAD);
    return handle ? dlsym(handle, name) : NULL;
}

int XmbLookupString(void *context, void *event, char *buffer, int size, unsigned long *keysym, int *status)
{
    static lookup_mb *real;
    if (!real) real = (lookup_mb *)other("libX11.so.6", "XmbLookupString");
    if (!real) return 0;
    int done, count = real(context, event, buffer, size, keysym, status ? status : &done);
    int said = status ? *status : done;
    length = 0;
    if ((said == X_LOOKUP_CHARS || said == X_LOOKUP_BOTH) && count > 0 && count <= size && count <= MOST)
        for (; length < count; length++) text[length] = (unsigned char)buffer[length];
    return count;
}

int XLookupString(void *event, char *buffer, int size, unsigned long *keysym, void *status)
{
    static lookup *real;
    if (!real) real = (lookup *)other("libX11.so.6", "XLookupString");
    length = 0; /* it answers in another encoding, and is asked when keys are released */
    return real ? real(event, buffer, size, keysym, status) : 0;
}

/* The UTF-16 units of the noted text; 0: it is none. */
static int units(uint16_t *to)
{
    int count = 0;
    if (length == 1 && text[0] >= 0xA0) { /* Xlib's answer to a Unicode keysym of Latin-1, which should not be, and is sent */
        to[0] = text[0];
        return 1;
    }
    for (int at = 0; at < length;) {
        unsigned char lead = text[at++];
        int more = lead < 0x80 ? 0 : lead >= 0xC2 && lead < 0xE0 ? 1 : lead >= 0xE0 && lead < 0xF0 ? 2 : lead >= 0xF0 && lead < 0xF5 ? 3 : -1;
        if (more < 0 || at + more > length) return 0;
        uint32_t code = more ? lead & (0x3F >> more) : lead;
        while (more--) {
            if ((text[at] & 0xC0) != 0x80) return 0;
            code = code << 6 | (text[at++] & 0x3F);
        }
        if (code < 0x10000) {
            to[count++] = (uint16_t)code;
        } else {
            to[count++] = (uint16_t)(0xD7C0 + (code >> 10));
            to[count++] = (uint16_t)(0xDC00 | (code & 0x3FF));
        }
    }
    return count;
}

static __attribute__((noinline)) int send(void *window, const struct input *input, const void *raw)
{
    static send_input *real;
    if (!real) real = (send_input *)other("win32u.so", "__wine_send_input");
    if (!real) return 0;
    uint16_t unit[MOST];
    if (input->type != INPUT_KEYBOARD || input->key != VK_NONAME) return real(window, input, raw);
    if (input->flags & KEYEVENTF_KEYUP) return 1; /* each unit was released when it was pressed */
    int count = units(unit), sent = 1;
    if (!count) return real(window, input, raw);
    for (int at = 0; at < count; at++) {
        struct input one = *input;
        one.key = 0;
        one.scan = unit[at];
        one.flags = KEYEVENTF_UNICODE;
        sent &= real(window, &one, raw);
        one.flags |= KEYEVENTF_KEYUP;
        sent &= real(window, &one, raw);
    }
    return sent;
}

/* Called as Windows functions are; thread-local variables are left to a function that is called as Linux' are, since the code for them
 * expects that. */
int __attribute__((ms_abi)) __wine_send_input(void *window, const struct input *input, const void *raw)
{
    return send(window, input, raw);
}
