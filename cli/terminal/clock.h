/* clock.h - the time of progress lines and of measurements. */
#ifndef CLI_TERMINAL_CLOCK_H
#define CLI_TERMINAL_CLOCK_H

double cli_now(void);         /* seconds, monotonic */
double cli_since_start(void); /* seconds since main began */
void   cli_start_clock(void);

#endif
