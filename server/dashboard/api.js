/*
 * Requests to the service. Every answer is {status, body, problem}; a problem document, or the like of one where nothing
 * answered.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, {cache: 'no-store', ...options});
  } catch {
    return {status: 0, problem: {title: 'The service does not answer', detail: 'it is asked again'}};
  }
  const type = response.headers.get('Content-Type') || '';
  let body = null;
  try {
    body = type.includes('json') ? await response.json() : await response.text();
  } catch {
    return {status: 0, problem: {title: 'The answer was cut short', detail: path}};
  }
  const answer = {status: response.status, etag: response.headers.get('ETag'), body};
  if (response.status >= 400) {
    answer.problem = typeof body === 'object' ? body : {title: `HTTP status ${response.status}`, detail: body};
  }
  return answer;
}

export function get(path, accept = '*/*') {
  return ask(path, {headers: {Accept: accept}});
}

/* text: JSON as it shall be sent, digit for digit. */
export function post(path, text) {
  return ask(path, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: text});
}

export function remove(path) {
  return ask(path, {method: 'DELETE'});
}

/* Asks every `interval` ms, if it is due, until the function that it returns is called, or `show` returns false; what has
 * not changed costs the service a 304 and is not shown again. A page that nobody sees does not ask. */
export function poll(path, interval, show, due = () => true) {
  let stopped = false, etag = null, timer = null, failed = false;
  async function once() {
    if (document.hidden || !due()) {
      timer = setTimeout(once, interval);
      return;
    }
    const headers = etag ? {'If-None-Match': etag} : {};
    const answer = await ask(path, {headers});
    if (stopped) {
      return;
    }
    etag = answer.etag || etag;
    if ((answer.status !== 304 || failed) && show(answer) === false) {
      stopped = true;
      return;
    }
    failed = answer.status === 0 || answer.status >= 500;
    if (failed) {
      etag = null;
    }
    timer = setTimeout(once, interval);
  }
  once();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
