/*
 * A resource as it goes: by its events (Server-Sent Events) while they come, by polling while they do not. A stream may be
 * refused (an EventSource can send no header such as Authorization, where a proxy wants one), break, or be held back: all
 * of these are one state, in which no event has come, and it ends with the next event. A browser opens six connections to a
 * server, for all its pages together, so a page that nobody sees gives its stream back.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {poll} from './api.js';

/* What is at `path`, a `noun`, which is also the name of its last event. Its states go to `show`, as answers, until that
 * returns false or the function that this returns is called. */
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

  /* Of a job that runs its progress is all that changes; of what else there is, an event says that there is news to ask for. */
  function progress({data}) {
    told = true;
    if (shown?.status === 'running' && shown.progress) {
      present({status: 200, body: {...shown, progress: JSON.parse(data)}});
    } else {
      news = true;
    }
  }

  function listen() {
    if (!document.hidden) {
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
