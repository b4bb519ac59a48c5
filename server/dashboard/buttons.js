/*
 * Buttons that act and report the outcome: copy, save, cancel, and delete, which asks for confirmation.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get, post, remove} from './api.js';
import {announce, h} from './dom.js';

/* A button that shows the outcome for a while; `act` returns it as a word and as a sentence. */
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
    ? ['Copied'] : ['Not allowed', 'The browser does not allow this page to copy']);
}

/* A button that saves the representation of `path` with the given type as a file of the given name. */
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

/* navigator.clipboard exists only over HTTPS and on localhost. */
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

/* For a resource that is not final; its page then shows that it has ended. */
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

/* loss: what is deleted with it. list: the address of the view to go to. Returns the button and its dialog. */
export function deleteButton({links}, {noun, loss, list}, fail) {
  const dialog = h('dialog', {'aria-labelledby': 'forget-title'},
    h('h2', {id: 'forget-title'}, `Delete this ${noun}?`), h('p', {}, loss),
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
      announce(`The ${noun} is deleted`);
      location.hash = list;
    }
  });
  return [h('button', {type: 'button', class: 'danger', id: 'delete', onclick: () => dialog.showModal()}, 'Delete'),
          dialog];
}
