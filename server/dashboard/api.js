/*
 * Requests to the service. Every answer is {status, body, problem}. problem is the problem document, or a similar
 * object if there was no answer.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

import {askForKey, keyHeaders} from './key.js';

async function ask(path, options) {
  const sent = keyHeaders();
  let response;
  try {
    response = await fetch(path, {cache: 'no-store', ...options, headers: {...options.headers, ...sent}});
  } catch {
    return {status: 0, problem: {title: 'No answer from the service', detail: 'retrying'}};
  }
  const type = response.headers.get('Content-Type') || '';
  let body = null;
  try {
    body = type.includes('json') ? await response.json() : await response.text();
  } catch {
    return {status: 0, problem: {title: 'The response was incomplete', detail: path}};
  }
  if (response.status === 401 && await askForKey(body.detail, sent)) {
    return ask(path, options);
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

/* text: JSON, sent unchanged, so that numbers keep their digits. */
export function post(path, text) {
  return ask(path, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: text});
}

export function remove(path) {
  return ask(path, {method: 'DELETE'});
}

/* Requests `path` every `interval` ms, if due() is true, until the returned function is called or `show` returns false.
 * An unchanged resource costs the service a 304 and is not shown again. A hidden page sends no requests. */
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
