-- wrk: posts one job that the service has answered before, over and over. JOB is the body.
-- SPDX-License-Identifier: GPL-3.0-or-later
wrk.method = "POST"
wrk.body = os.getenv("JOB")
wrk.headers["Content-Type"] = "application/json"
