"""Checks JSON against the published schema of Open Responses.

Each line of standard input is [name, value]: the name of what it is (response, compaction, event, error over a
WebSocket) and the value. The types come from the package openresponses-types, which is generated from the OpenAPI
document of Open Responses. Prints what does not fit, and exits with 1 if anything does not.
"""

import json

import openresponses_types as types
from judging import judge

EVENTS = {
    f"response.{name}": getattr(types, f"Response{class_name}StreamingEvent")
    for name, class_name in [
        ("created", "Created"),
        ("queued", "Queued"),
        ("in_progress", "InProgress"),
        ("completed", "Completed"),
        ("failed", "Failed"),
        ("incomplete", "Incomplete"),
        ("output_item.added", "OutputItemAdded"),
        ("output_item.done", "OutputItemDone"),
        ("content_part.added", "ContentPartAdded"),
        ("content_part.done", "ContentPartDone"),
        ("output_text.delta", "OutputTextDelta"),
        ("output_text.done", "OutputTextDone"),
        ("output_text.annotation.added", "OutputTextAnnotationAdded"),
        ("refusal.delta", "RefusalDelta"),
        ("refusal.done", "RefusalDone"),
        ("reasoning.delta", "ReasoningDelta"),
        ("reasoning.done", "ReasoningDone"),
        ("reasoning_summary_text.delta", "ReasoningSummaryDelta"),
        ("reasoning_summary_text.done", "ReasoningSummaryDone"),
        ("reasoning_summary_part.added", "ReasoningSummaryPartAdded"),
        ("reasoning_summary_part.done", "ReasoningSummaryPartDone"),
        ("function_call_arguments.delta", "FunctionCallArgumentsDelta"),
        ("function_call_arguments.done", "FunctionCallArgumentsDone"),
    ]
}
NAMED = {
    "response": types.ResponseResource,
    "compaction": types.CompactResource,
    "socket error": types.WebSocketErrorEvent,
}


def problems(name, value):
    kind = EVENTS.get(value.get("type")) if name == "event" else NAMED[name]
    if kind is None:
        return [f"unknown event: {value.get('type')}"]
    # Strict: a number in the place of a text is not taken for it.
    kind.model_validate_json(json.dumps(value), strict=True)
    return []


judge(problems, f"as published in version {types.__spec_version__}")
