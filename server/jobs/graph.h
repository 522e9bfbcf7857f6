/* graph.h - the plan of a model as a picture. */
#ifndef SERVER_JOBS_GRAPH_H
#define SERVER_JOBS_GRAPH_H

#include "server/jobs/job.h"

/* GET /graph?model=NAME&times=1: SVG by the program `dot`; its input where there is no such program. With
 * times each node has its own, which is measured for it. */
extern const JobType graph_job;

/* GET /graph.html?model=NAME: the page of ServerOptions.graph_page. */
extern const JobType graph_page_job;

#endif
