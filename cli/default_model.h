/* default_model.h - the model of a command without -m: REPRISE_MODEL, else the demo model. */
#ifndef CLI_DEFAULT_MODEL_H
#define CLI_DEFAULT_MODEL_H

/* Path of the model: REPRISE_MODEL if set, else the first readable one of these, relative to the program's folder:
 *
 *   ../share/reprise/demo.gguf                       installed
 *   ../assets/demo.gguf, ../../assets/demo.gguf      in a build folder of the source tree
 *
 * NULL if there is none; *searched then lists the places that were tried. Both texts are static. */
const char *cli_default_model(const char **searched);

#endif
