/*
 * The key of the service, if it requires one. The page asks for it when the service refuses a request, keeps it as long
 * as the tab is open, and sends it with every request. Links cannot send it, so they are followed here.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {h} from './dom.js';

const STORED = 'key';
let asking = null;

export function hasKey() {
  return sessionStorage.getItem(STORED) !== null;
}

/* The headers that carry the key. */
export function keyHeaders() {
  return hasKey() ? {Authorization: `Bearer ${sessionStorage.getItem(STORED)}`} : {};
}

function openDialog(detail, done) {
  const input = h('input', {type: 'password', id: 'key', autocomplete: 'off', required: true});
  const dialog = h('dialog', {id: 'key-dialog', 'aria-labelledby': 'key-title', onclose: () => {
    dialog.remove();
    done(dialog.returnValue === 'given' && input.value.trim() !== '' ? input.value.trim() : null);
  }}, h('form', {method: 'dialog'},
        h('h2', {id: 'key-title'}, 'This service requires a key'), h('p', {class: 'quiet'}, detail),
        h('p', {}, h('label', {for: 'key'}, 'Key '), input),
        h('p', {}, h('button', {class: 'primary', value: 'given'}, 'Continue'), ' ',
          h('button', {value: 'none', formnovalidate: true}, 'Cancel'))));
  document.body.append(dialog);
  dialog.showModal();
}

/* Asks for a key; once, if several requests were refused. sent: the headers of the refused request. Whether there is
 * another key to try now. */
export function askForKey(detail, sent) {
  if (keyHeaders().Authorization !== sent.Authorization) {
    return Promise.resolve(true); /* it was given meanwhile */
  }
  asking ||= new Promise((resolve) => openDialog(detail, (key) => {
    asking = null;
    if (key !== null) {
      sessionStorage.setItem(STORED, key);
    }
    resolve(key !== null);
  }));
  return asking;
}

/* Follows links to resources of the service with the key. */
document.addEventListener('click', async (event) => {
  const link = event.target.closest('a[href^="/v1"], a[href="/metrics"]');
  if (!link || !hasKey() || event.defaultPrevented) {
    return;
  }
  event.preventDefault();
  const answer = await fetch(link.href, {headers: keyHeaders(), cache: 'no-store'});
  location.href = URL.createObjectURL(new Blob([await answer.blob()], {type: 'text/plain'}));
});
