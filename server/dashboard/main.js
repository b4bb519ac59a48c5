/*
 * Selects the view by the part of the address after #. A view gets the empty <main>, and may return a function that
 * ends it. A new view moves the focus to its heading, so that screen readers announce it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {dropAll} from './charts.js';
import {showComparison} from './compare.js';
import {h} from './dom.js';
import {showForm} from './form.js';
import {showJob} from './job.js';
import {showJobs} from './jobs.js';
import {showLoad} from './load.js';
import {showPlan, showPlans} from './plans.js';
import {showSweep, showSweeps} from './sweeps.js';

const VIEWS = [
  {path: /^\/$/, nav: 'nav-jobs', title: 'Jobs', show: (main, query) => showJobs(main, query)},
  {path: /^\/new$/, nav: 'nav-new', title: 'New job', show: (main, query) => showForm(main, query)},
  {path: /^\/jobs\/([^/]+)$/, nav: 'nav-jobs', title: 'Job', show: (main, query, id) => showJob(main, id)},
  {path: /^\/plans$/, nav: 'nav-plans', title: 'Plans', show: (main, query) => showPlans(main, query)},
  {path: /^\/plans\/([^/]+)$/, nav: 'nav-plans', title: 'Plan', show: (main, query, id) => showPlan(main, id)},
  {path: /^\/sweeps$/, nav: 'nav-sweeps', title: 'Sweeps', show: (main, query) => showSweeps(main, query)},
  {path: /^\/sweeps\/([^/]+)$/, nav: 'nav-sweeps', title: 'Sweep', show: (main, query, id) => showSweep(main, id)},
  {path: /^\/compare$/, nav: 'nav-compare', title: 'Compare', show: (main, query) => showComparison(main, query)},
  {path: /^\/load$/, nav: 'nav-load', title: 'Server', show: (main) => showLoad(main)},
];

const main = document.getElementById('main');
let end = null;

function show(focus) {
  const [path, search] = (location.hash.slice(1) || '/').split('?');
  end?.();
  end = null;
  dropAll(main);
  main.replaceChildren();
  document.querySelectorAll('nav [aria-current]').forEach((link) => link.removeAttribute('aria-current'));
  const view = VIEWS.find((one) => one.path.test(path));
  if (!view) {
    main.append(h('h1', {tabindex: '-1'}, 'This page does not exist'), h('p', {}, h('a', {href: '#/'}, 'To the jobs')));
  } else {
    document.title = `${view.title} – epsilond`;
    document.getElementById(view.nav).setAttribute('aria-current', 'page');
    const ended = view.show(main, Object.fromEntries(new URLSearchParams(search)), view.path.exec(path)[1]);
    end = typeof ended === 'function' ? ended : null;
  }
  if (focus) {
    main.querySelector('h1').focus();
    scrollTo(0, 0);
  }
}

addEventListener('hashchange', () => show(true));
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault(); /* the address selects the view */
  main.focus();
});
show(false);
