/*
 * Buttons that do more than lead elsewhere, and say what came of it: copy, save, cancel, and forget, which asks first.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get, post, remove} from './api.js';
import {announce, h} from './dom.js';

/* A button that says for a while what came of it; `act` returns that in a word, and in a sentence. */
function saying(label, act) {
  const button = h('button', {type: 'button'}, label);
  button.addEventListener('click', async () => {
    const [word, sentence = word] = await act();
    announce(sentence);
    button.textContent = word;
    setTimeout(() => { button.textContent = label; }, 2000);
  });
  return button;
}

export function copyButton(label, text) {
  return saying(label, async () => await copy(typeof text === 'function' ? text() : text)
    ? ['Copied'] : ['Not allowed', 'The browser does not let this page copy']);
}

/* Of what the service has at `path`, as that type, a file of that name. */
export function saveButton(label, file, path, type) {
  return saying(label, async () => {
    const {problem, body} = await get(path, type);
    if (problem) {
      return ['Failed', problem.detail || problem.title];
    }
    const text = typeof body === 'string' ? body : JSON.stringify(body, null, 2);
    const link = h('a', {href: URL.createObjectURL(new Blob([text], {type})), download: file});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    return ['Saved'];
  });
}

/* navigator.clipboard is there only over HTTPS and on localhost. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h('textarea', {class: 'unseen'});
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

/* Of what is not final: its page then shows that it has ended. */
export function cancelButton({links}, fail) {
  return h('button', {type: 'button', class: 'danger', id: 'cancel', onclick: async ({target}) => {
    target.disabled = true;
    const {problem} = await post(links.cancel, '');
    if (problem) {
      target.disabled = false;
      fail(problem);
    }
  }}, 'Cancel');
}

/* loss: what goes with it. list: the address of the view that is left to look at. Returns the button and its question. */
export function deleteButton({links}, {noun, loss, list}, fail) {
  const dialog = h('dialog', {'aria-labelledby': 'forget-title'}, h('h2', {id: 'forget-title'}, `Forget this ${noun}?`), h('p', {}, loss),
    h('form', {method: 'dialog', class: 'actions'}, h('button', {value: 'no'}, 'Keep it'),
      h('button', {value: 'yes', class: 'danger', id: 'delete-yes'}, 'Delete')));
  dialog.addEventListener('close', async () => {
    if (dialog.returnValue !== 'yes') {
      return;
    }
    const {problem} = await remove(links.self);
    if (problem) {
      fail(problem);
    } else {
      announce(`The ${noun} is gone`);
      location.hash = list;
    }
  });
  return [h('button', {type: 'button', class: 'danger', id: 'delete', onclick: () => dialog.showModal()}, 'Delete'), dialog];
}
