"""Every failure of the API as ``{code, message, hint}``, never a traceback."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from rtc_server import metrics
from rtc_server.errors import RtcServerError
from rtc_server.log import get_logger

log = get_logger(__name__)

_BY_STATUS = {
    404: ("not_found", "there is nothing at this path", "the API lies under /v1, the page at /"),
    405: ("method_not_allowed", "this path does not take this method", "see the Allow header"),
    413: ("too_large", "the body is over its limit", "see limits in /v1/config"),
}


def error_response(error: RtcServerError) -> web.Response:
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.json_response(error.to_json(), status=error.http_status, headers=headers)


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except RtcServerError as error:
        if request.method == "POST":
            metrics.OFFERS_REJECTED.labels(error.code).inc()
        return error_response(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code, message, hint = _BY_STATUS.get(error.status, ("http_error", error.reason, ""))
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        body = {"code": code, "message": message, "hint": hint}
        return web.json_response(body, status=error.status, headers=headers)
    except Exception:
        log.exception("request failed", method=request.method)
        body = {"code": "internal", "message": "the server made a mistake", "hint": "its log says more"}
        return web.json_response(body, status=500)
