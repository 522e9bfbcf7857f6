/* formats.h - the formats, and the functions that they share between their files. */
#ifndef SERVER_API_FORMATS_H
#define SERVER_API_FORMATS_H

#include "server/api/api.h"

extern const ApiFormat api_chat, api_completion, api_responses, api_messages, api_infill;

bool api_chat_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                    ApiError *error);
bool api_completion_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                          ApiError *error);
bool api_responses_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                         ApiError *error);
bool api_messages_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                        ApiError *error);
bool api_infill_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                      ApiError *error);

#endif
