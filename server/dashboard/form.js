/*
 * The form for a job, generated from the table of fields, with the equivalent curl command. Errors of the service are
 * shown at their fields.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get, post} from './api.js';
import {applies, build, curl, texts, write} from './build.js';
import {copyButton} from './buttons.js';
import {announce, h} from './dom.js';
import {fields, sections, start} from './fields.js';

const idOf = (pointer) => `field${pointer.replaceAll(/[/@]/g, '-')}`;

function control(field, id) {
  const attributes = {id, name: field.pointer, 'aria-describedby': `${id}-help ${id}-error`};
  const choices = field.kind === 'switch'
    ? [...(start(field) === '' ? [['', 'not chosen']] : []), ['true', 'yes'], ['false', 'no']] : field.options;
  if (choices) {
    return h('select', attributes, choices.map(([value, text, family]) =>
      h('option', {value, 'data-family': family, selected: value === start(field)}, text)));
  }
  if (['numbers', 'rows', 'json'].includes(field.kind)) {
    return h('textarea', {...attributes, rows: field.kind === 'numbers' ? 2 : 6, spellcheck: 'false'});
  }
  return h('input', {...attributes, type: 'text', value: start(field), autocomplete: 'off', spellcheck: 'false',
                     inputmode: field.kind === 'integer' ? 'numeric' : field.kind === 'number' ? 'decimal' : null});
}

function row(field) {
  const id = idOf(field.pointer);
  return h('div', {class: 'field', id: `${id}-row`},
           h('label', {for: id}, field.label), control(field, id),
           h('p', {class: 'help', id: `${id}-help`}, field.help),
           h('p', {class: 'error', id: `${id}-error`}));
}

function fieldset(section) {
  const advanced = section.fields.filter((field) => field.advanced);
  return h('fieldset', {}, h('legend', {}, section.title),
           section.fields.filter((field) => !field.advanced).map(row),
           advanced.length ? h('details', {}, h('summary', {}, 'More'), advanced.map(row)) : null);
}

/* The field of an error: the one with the longest pointer that is a prefix of the error's pointer, otherwise the first
 * one inside it. */
function fieldFor(pointer, value) {
  const there = fields.filter((field) => applies(field, value));
  const around = there.filter((field) => pointer === field.pointer || pointer.startsWith(`${field.pointer}/`));
  const within = there.filter((field) => pointer && field.pointer.startsWith(`${pointer}/`));
  return around.sort((a, b) => b.pointer.length - a.pointer.length)[0] || within[0];
}

class Form {
  constructor() {
    this.summary = h('div', {class: 'summary', id: 'errors', tabindex: '-1', role: 'alert'});
    this.command = h('code', {id: 'curl'});
    this.submit = h('button', {type: 'submit', class: 'primary', id: 'submit'}, 'Submit');
    this.element = h('form', {id: 'job-form', novalidate: true, 'aria-label': 'Job',
                              onsubmit: (event) => this.send(event), oninput: () => this.update(),
                              onchange: () => this.update()},
      this.summary, sections.map(fieldset),
      h('section', {class: 'command', 'aria-labelledby': 'curl-title'},
        h('h2', {id: 'curl-title'}, 'Equivalent curl command'),
        h('pre', {tabindex: '0', role: 'region', 'aria-label': 'curl command'}, this.command),
        h('div', {class: 'actions'}, this.submit, copyButton('Copy command', () => this.command.textContent))));
    this.value = (pointer) => this.element.elements.namedItem(pointer)?.value;
  }

  /* Shows the fields that apply, and the command. */
  update() {
    const family = this.value('/matrix/family');
    for (const field of fields) {
      const entry = this.element.elements.namedItem(field.pointer);
      entry.closest('.field').hidden = !applies(field, this.value);
      for (const option of entry.querySelectorAll?.('option[data-family]') || []) {
        option.hidden = option.disabled = option.dataset.family !== family;
        if (option.hidden && option.selected) {
          entry.value = '';
        }
      }
    }
    for (const group of this.element.querySelectorAll('details, fieldset')) {
      group.hidden = ![...group.querySelectorAll('.field')].some((field) => !field.hidden);
    }
    this.command.textContent = curl(build(this.value), location.origin);
  }

  fill(job) {
    for (const [pointer, text] of texts(job)) {
      const entry = this.element.elements.namedItem(pointer);
      if (entry) {
        entry.value = text;
      }
    }
    this.update();
  }

  clear() {
    this.summary.replaceChildren();
    for (const field of fields) {
      const id = idOf(field.pointer);
      this.element.elements.namedItem(field.pointer).removeAttribute('aria-invalid');
      this.element.querySelector(`#${id}-error`).textContent = '';
    }
  }

  /* Shows each error at its field, and all errors at the top, with links. */
  refuse(problem) {
    const errors = problem.errors || [];
    const items = errors.map(({pointer, detail}) => {
      const field = fieldFor(pointer, this.value);
      if (!field) {
        return h('li', {}, detail);
      }
      const id = idOf(field.pointer);
      const entry = this.element.querySelector(`#${id}`);
      const note = this.element.querySelector(`#${id}-error`);
      entry.setAttribute('aria-invalid', 'true');
      note.textContent = note.textContent ? `${note.textContent}; ${detail}` : detail;
      const folded = entry.closest('details');
      if (folded) {
        folded.open = true;
      }
      return h('li', {}, h('a', {href: `#${id}`, onclick: (event) => {
        event.preventDefault();
        entry.focus();
      }}, field.label), `: ${detail}`);
    });
    const would = problem.accountants?.length
      ? h('p', {}, `Accountants that serve a similar job: ${problem.accountants.join(', ')}.`) : null;
    this.summary.replaceChildren(h('h2', {}, problem.title || 'The job was rejected'),
      h('p', {}, problem.detail || ''), ...(items.length ? [h('ul', {}, items)] : []), ...(would ? [would] : []));
    const first = this.element.querySelector('[aria-invalid]');
    (first || this.summary).focus();
  }

  async send(event) {
    event.preventDefault();
    this.clear();
    this.submit.disabled = true;
    const answer = await post('/v1/jobs', write(build(this.value)));
    this.submit.disabled = false;
    if (answer.problem) {
      this.refuse(answer.problem);
    } else {
      announce('The job was accepted');
      location.hash = `#/jobs/${answer.body.id}`;
    }
  }
}

/* The view. `from`: the id of the job to start from. */
export async function showForm(main, {from}) {
  const form = new Form();
  main.append(h('h1', {tabindex: '-1'}, 'New job'), form.element);
  form.update();
  if (from) {
    const answer = await get(`/v1/jobs/${encodeURIComponent(from)}`);
    if (answer.problem) {
      form.refuse(answer.problem);
    } else {
      form.fill(answer.body.job);
    }
  }
}
