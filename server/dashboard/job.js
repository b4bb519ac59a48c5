/*
 * The page of a job: its progress until it is final, then its result.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {cancelButton, copyButton, deleteButton} from './buttons.js';
import {announce, badge, h, seconds, trouble, when} from './dom.js';
import {drawings} from './drawings.js';
import {follow} from './follow.js';
import {answer} from './jobs.js';
import {capital, ofJob} from './question.js';
import {caches, failed, headed, succeeded} from './result.js';
import {statement} from './statement.js';

const INTERVAL = 1000; /* ms */
const FINAL = ['succeeded', 'failed', 'canceled'];
const KIND = {noun: 'job', loss: 'Its result is deleted as well. An equal job may still find it in the cache.',
              list: '#/'};

class Page {
  constructor(main) {
    this.title = h('h1', {tabindex: '-1'}, 'Job');
    this.state = h('p', {class: 'state', id: 'state'});
    this.actions = h('div', {class: 'actions'});
    this.notes = h('div');
    this.answer = h('div');
    this.body = h('div');
    this.final = null;
    main.append(this.title, this.state, this.notes, this.answer, this.actions, this.body);
  }

  fail(problem) {
    this.notes.replaceChildren(trouble(problem));
  }

  /* The actions that exist do not change until the job is final. */
  act(document, final) {
    const fail = (problem) => this.fail(problem);
    this.actions.replaceChildren(...[
      final ? deleteButton(document, KIND, fail) : cancelButton(document, fail),
      copyButton('Copy JSON', () => JSON.stringify(this.document, null, 2)),
      h('a', {class: 'button', href: `#/new?from=${document.id}`}, 'Edit and submit again'),
      h('a', {class: 'button', href: document.links.self}, 'JSON')].flat());
  }

  wait({progress, status}) {
    if (status === 'queued' || !progress) {
      this.body.replaceChildren(h('p', {class: 'quiet'}, 'Waiting for a worker.'));
      return;
    }
    const bar = this.body.querySelector('progress') || h('progress', {max: 1, 'aria-label': 'Progress of this job'});
    bar.value = progress.fraction;
    const left = progress.remaining_seconds === null || progress.remaining_seconds === undefined ? ''
      : `, about ${seconds(progress.remaining_seconds)} left`;
    const words = h('p', {class: 'quiet'},
                    `${Math.floor(100 * progress.fraction)}%${progress.stage ? `, ${progress.stage}` : ''}${left}`);
    this.body.replaceChildren(bar, words);
  }

  /* Returns false if the job will not change again. */
  show({status, problem, body}) {
    if (problem) {
      this.fail(problem);
      return status === 0 || status >= 500;
    }
    this.document = body;
    this.notes.replaceChildren();
    const final = FINAL.includes(body.status);
    const question = capital(ofJob(body.job)), title = body.label || question;
    if (this.title.textContent !== title) {
      this.title.textContent = title;
      document.title = `${title} – epsilond`;
    }
    this.state.replaceChildren(badge(body.status), body.label ? `${question}; created ` : 'created ',
                               when(body.created_at));
    if (this.final !== final) {
      this.act(body, final);
      if (this.final === false) {
        announce(`Job ${body.status} ${answer(body)}`);
      }
      this.final = final;
    }
    if (!final) {
      this.wait(body);
      return true;
    }
    this.answer.replaceChildren(body.status === 'succeeded' ? headed(body) : failed(body));
    const content = body.status !== 'succeeded' ? []
      : [...succeeded(body), drawings(body), statement(body), caches(body)];
    this.body.replaceChildren(...content.filter(Boolean),
      h('details', {}, h('summary', {}, 'The job as JSON'),
        h('pre', {tabindex: '0', id: 'job-json'}, JSON.stringify(body.job, null, 2))));
    return false;
  }
}

/* The view; returns a function that ends it. */
export function showJob(main, id) {
  const page = new Page(main);
  return follow(`/v1/jobs/${encodeURIComponent(id)}`, KIND.noun, INTERVAL, (reply) => page.show(reply));
}
