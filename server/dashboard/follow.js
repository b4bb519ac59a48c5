/*
 * Follows a resource by Server-Sent Events while they arrive, and otherwise by polling. A stream may break, be
 * buffered by a proxy, or be refused, as an EventSource cannot send the header Authorization. All of these count as
 * one state, in which no event has arrived; the next event ends it. Browsers open at most six connections to a server
 * for all their pages together, so a hidden page closes its stream.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {poll} from './api.js';
import {hasKey} from './key.js';

/* Follows the resource at `path`. `noun` is its kind and the name of its last event. `show` gets its states, as
 * answers, until it returns false or the returned function is called. */
export function follow(path, noun, interval, show) {
  let shown = null, told = false, news = false, stream = null;

  function present(answer) {
    shown = answer.body;
    news = news || Boolean(answer.problem);
    if (show(answer) === false) {
      end();
      return false;
    }
    if (!stream && !answer.problem) {
      listen();
    }
    return true;
  }

  /* While a job runs, only its progress changes, and the event contains it. For other resources an event only says that
   * there is something new to request. */
  function progress({data}) {
    told = true;
    if (shown?.status === 'running' && shown.progress) {
      present({status: 200, body: {...shown, progress: JSON.parse(data)}});
    } else {
      news = true;
    }
  }

  function listen() {
    if (!document.hidden && !hasKey()) {
      stream = new EventSource(`${path}/events`);
      stream.addEventListener('progress', progress);
      stream.addEventListener(noun, ({data}) => present({status: 200, body: JSON.parse(data)}));
      stream.addEventListener('error', () => { told = false; });
    }
  }

  function hush() {
    stream?.close();
    stream = null;
    told = false;
  }

  function look() {
    hush();
    if (shown) {
      listen();
    }
  }

  function due() {
    const ask = !told || news;
    news = false;
    return ask;
  }

  function end() {
    document.removeEventListener('visibilitychange', look);
    hush();
    stop();
  }

  const stop = poll(path, interval, present, due);
  document.addEventListener('visibilitychange', look);
  return end;
}
