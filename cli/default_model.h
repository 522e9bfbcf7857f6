/* default_model.h - the model that is taken where none is named: the demo model that ships with the program.
 */
#ifndef CLI_DEFAULT_MODEL_H
#define CLI_DEFAULT_MODEL_H

/* Its path: REPRISE_MODEL, ../share/reprise/demo.gguf beside the program's folder (installed), or
 * assets/demo.gguf one or two folders up (in a build folder of the source tree). NULL where there is none;
 * `looked` then says where it was looked for. The text lives as long as the program. */
const char *cli_default_model(const char **looked);

#endif
