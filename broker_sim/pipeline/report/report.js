// The report in a reader's hands: groups are searched for, time is pointed at and zoomed into, findings and bars lead to each other, tables are sorted
// and taken along. The page is whole without this; nothing here draws what the rows don't say.
(function () {
  'use strict';
  var all = function (selector, root) { return Array.prototype.slice.call((root || document).querySelectorAll(selector)); };
  var one = function (selector) { return document.querySelector(selector); };
  var root = document.documentElement, main = one('main'), tip = one('#tip');
  var pieces = JSON.parse(main.dataset.time);   // [from ms, to ms, start, end], the last two as shares of a picture's width
  var plots = all('svg.chart g.plot');
  root.classList.add('js');

  // --- what is pointed at, in words

  // a picture's titles are taken when it is first pointed at: a page has tens of thousands
  function prepared(svg) {
    if (svg.prepared) return;
    svg.prepared = true;
    all('title', svg).forEach(function (title) {
      var owner = title.parentNode;
      if (owner === svg) return;
      owner.tip = title.textContent;
      owner.setAttribute('aria-label', title.textContent);
      owner.removeChild(title);
    });
  }
  function explain(event) {
    var at = event.target, drawing = at.closest && at.closest('svg.chart');
    if (drawing) prepared(drawing);
    while (at && !at.tip) at = at.parentNode;
    if (!at) { tip.style.opacity = 0; return; }
    tip.textContent = at.tip;
    tip.style.opacity = 1;
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)) + 'px';
    tip.style.top = (event.clientY + 18 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 12
      : event.clientY + 18) + 'px';
  }
  document.addEventListener('pointermove', explain);
  document.addEventListener('pointerdown', explain);
  document.addEventListener('scroll', function () { tip.style.opacity = 0; });

  // --- groups

  // what belongs to groups, read once: the names are those of `data-about`, a line each, else that of `data-group`
  var search = one('#search'), found = one('#found'), severities = all('#bar [data-severity]'), everything = false;
  var entries = all('main [data-group]').map(function (element) {
    var names = (element.dataset.about || element.dataset.group).split('\n').filter(Boolean);
    return {
      element: element, names: names, lower: names.map(function (name) { return name.toLowerCase(); }),
      drawn: element instanceof SVGElement, more: element.classList.contains('more'), severity: element.dataset.severity,
      section: element.closest('section'), hidden: element.hidden, dim: false
    };
  });
  var notes = all('main section').map(function (section) {
    return { note: section.querySelector('.none'), own: entries.filter(function (it) { return it.section === section && !it.drawn; }) };
  }).filter(function (it) { return it.note; });
  var rests = all('details.rest').map(function (rest) {
    return { rest: rest, label: rest.querySelector('.count'), own: entries.filter(function (it) { return rest.contains(it.element); }) };
  });
  var askers = all('[data-all]'), lanes = {};
  all('.lanes .row[data-group]').forEach(function (row) { lanes[row.dataset.group] = row; });
  function shown(it) { return !it.hidden; }
  function put(it, hidden) { if (it.hidden !== hidden) { it.hidden = hidden; it.element.hidden = hidden; } }
  function filter() {
    var words = search.value.trim().toLowerCase(), groups = {}, off = {}, some = false;
    severities.forEach(function (button) {
      var hides = button.getAttribute('aria-pressed') === 'false';
      off[button.dataset.severity] = hides;
      some = some || hides;
      button.title = hides ? 'Hidden; click to show' : 'Shown; click to hide';
      root.classList.toggle('off-' + button.dataset.severity, hides);
    });
    entries.forEach(function (it) {
      var hits = words ? it.names.filter(function (name, place) { return it.lower[place].indexOf(words) >= 0; }) : it.names;
      var hit = !words || hits.length > 0;
      if (it.drawn) {
        if (it.dim === hit) { it.dim = !hit; it.element.classList.toggle('dim', !hit); }
      } else {
        put(it, !hit || (it.more && !words && !everything) || off[it.severity] === true);
        if (it.hidden) return;
      }
      if (words) hits.forEach(function (name) { groups[name] = true; });
    });
    askers.forEach(function (button) { button.hidden = !!words || everything; });
    rests.forEach(function (it) {
      var number = it.own.filter(shown).length;
      it.rest.hidden = number === 0;
      it.label.textContent = number + (number === 1 ? ' more finding' : ' more findings');
      if (words) it.rest.open = true;
    });
    notes.forEach(function (it) {
      var severe = it.own.length && it.own[0].severity;
      it.note.hidden = !(words || (severe && some)) || it.own.some(shown);
    });
    var number = Object.keys(groups).length;
    found.textContent = words ? number + (number === 1 ? ' group' : ' groups') : '';
    var hash = words ? '#group=' + encodeURIComponent(search.value.trim()) : '';
    if (hash || location.hash.indexOf('#group=') === 0) history.replaceState(null, '', hash || location.pathname + location.search);
    zoomed();
  }
  function only(group) { search.value = group; filter(); }
  search.addEventListener('input', filter);
  search.addEventListener('keydown', function (event) { if (event.key === 'Escape') only(''); });
  severities.forEach(function (button) {
    button.addEventListener('click', function () {
      button.setAttribute('aria-pressed', button.getAttribute('aria-pressed') === 'false' ? 'true' : 'false');
      filter();
    });
  });
  askers.forEach(function (button) { button.addEventListener('click', function () { everything = true; filter(); }); });
  document.addEventListener('click', function (event) {
    var name = event.target.closest && event.target.closest('button.name');
    if (name) only(search.value === name.textContent ? '' : name.textContent);
  });

  // --- time: shares of a picture's width and back to ms

  function share(ms) {
    var last = pieces.length - 1;
    for (var i = 0; i <= last; i++) {
      var p = pieces[i];
      if (ms <= p[1] || i === last) return Math.min(Math.max(p[2] + (ms - p[0]) / Math.max(p[1] - p[0], 1) * (p[3] - p[2]), p[2]), p[3]);
    }
    return 0;
  }
  function moment(at) {
    var last = pieces.length - 1;
    for (var i = 0; i <= last; i++) {
      var p = pieces[i];
      if (at <= p[3] || i === last) return p[0] + Math.min(Math.max((at - p[2]) / ((p[3] - p[2]) || 1), 0), 1) * (p[1] - p[0]);
    }
    return 0;
  }
  function words(ms) { return new Date(ms).toISOString().replace('T', ' ').replace('Z', ''); }

  // --- zoom: the same stretch of time in all pictures

  var from = 0, to = 1, LEAST = 1 / 400, DEEP = 6, clips = 0;
  function clipped(plot) {
    if (plot.parentNode.classList.contains('clip')) return;
    var left = +plot.dataset.left, right = +plot.dataset.right, box = plot.ownerSVGElement.viewBox.baseVal;
    var space = plot.namespaceURI, path = document.createElementNS(space, 'clipPath'), area = document.createElementNS(space, 'rect');
    path.id = 'clip' + ++clips;
    [['x', left - 4], ['y', 0], ['width', right - left + 8], ['height', box.height]].forEach(function (it) { area.setAttribute(it[0], it[1]); });
    path.appendChild(area);
    var wrap = document.createElementNS(space, 'g');
    wrap.setAttribute('class', 'clip');
    wrap.setAttribute('clip-path', 'url(#' + path.id + ')');
    plot.parentNode.insertBefore(wrap, plot);
    wrap.appendChild(path);
    wrap.appendChild(plot);
  }
  // Pictures on the screen are drawn anew at once, the others when they come near it, or in pauses: a page has hundreds.
  var near = new Set(), waiting = 0, heads = all('.lanes .head g.plot');
  function fit(plot) {
    var left = +plot.dataset.left, width = +plot.dataset.right - left, k = 1 / (to - from), whole = k < 1.0001;
    if ((plot.k || 1) === k && (plot.from || 0) === from) return;
    plot.k = k; plot.from = from;
    if (!whole) clipped(plot);
    var shift = left - k * (left + from * width);
    if (whole) plot.removeAttribute('transform');
    else plot.setAttribute('transform', 'matrix(' + k + ' 0 0 1 ' + shift + ' 0)');
    if (!plot.marks) { plot.marks = all('.mark', plot); plot.thins = all('.thin', plot); }
    plot.marks.forEach(function (mark) {
      var x = +mark.dataset.x;
      if (whole) mark.removeAttribute('transform');
      else mark.setAttribute('transform', 'matrix(' + 1 / k + ' 0 0 1 ' + x * (1 - 1 / k) + ' 0)');
    });
    plot.thins.forEach(function (thin) {
      thin.firstElementChild.setAttribute('width', Math.max(+thin.dataset.w, +thin.dataset.least / k));
    });
  }
  function later() {
    var mine = ++waiting, place = 0;
    function some() {
      if (mine !== waiting) return;
      for (var until = performance.now() + 6; place < plots.length && performance.now() < until; place++) fit(plots[place]);
      if (place < plots.length) setTimeout(some, 10);
    }
    setTimeout(some, 60);
  }
  var watch = new IntersectionObserver(function (changes) {
    changes.forEach(function (change) {
      change.target.own.forEach(function (plot) {
        if (!change.isIntersecting) { near.delete(plot); return; }
        near.add(plot);
        fit(plot);
      });
    });
    point(cursor);
  }, { rootMargin: '200px' });
  plots.forEach(function (plot) {
    var svg = plot.ownerSVGElement;
    (svg.own = svg.own || []).push(plot);
    if (svg.own.length === 1) watch.observe(svg);
  });
  window.addEventListener('beforeprint', function () { plots.forEach(fit); });
  function zoomed() {
    var k = 1 / (to - from), whole = k < 1.0001;
    root.classList.toggle('zoomed', !whole);
    root.classList.toggle('deep', k >= DEEP);
    one('#whole').disabled = whole;
    one('#span').textContent = words(moment(from)) + ' to ' + words(moment(to)) + ' UTC';
    near.forEach(fit);
    later();
    ticks(whole);
    point(cursor);
  }
  var STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];
  function ticks(whole) {
    heads.forEach(function (plot) {
      var svg = plot.ownerSVGElement, old = svg.querySelector('.ticks');
      if (old) old.remove();
      plot.style.display = whole ? '' : 'none';
      if (whole) return;
      var begin = moment(from), end = moment(to), left = +plot.dataset.left, width = +plot.dataset.right - left;
      var step = STEPS.filter(function (it) { return (end - begin) / it <= width / 110; })[0] || STEPS[STEPS.length - 1];
      var own = document.createElementNS(plot.namespaceURI, 'g'), last = -1e9;
      own.setAttribute('class', 'ticks');
      for (var ms = Math.ceil(begin / step) * step; ms <= end; ms += step) {
        var x = left + (share(ms) - from) / (to - from) * width, text = document.createElementNS(plot.namespaceURI, 'text');
        if (x - last < 90 || x > left + width - 60) continue;   // a quiet time that is drawn short has no room for its labels
        last = x;
        text.setAttribute('class', 'muted small');
        text.setAttribute('x', x + 4);
        text.setAttribute('y', svg.viewBox.baseVal.height - 5);
        text.textContent = new Date(ms).toISOString().slice(11, step % 1000 ? 23 : 19);
        own.appendChild(text);
      }
      svg.appendChild(own);
    });
  }
  function zoom(a, b) {
    var width = Math.min(Math.max(b - a, LEAST), 1);
    from = Math.min(Math.max(a, 0), 1 - width);
    to = from + width;
    zoomed();
  }
  function around(at, factor) { zoom(at - (at - from) * factor, at + (to - at) * factor); }
  one('#in').addEventListener('click', function () { around(cursor === null ? (from + to) / 2 : cursor, 0.5); });
  one('#out').addEventListener('click', function () { around(cursor === null ? (from + to) / 2 : cursor, 2); });
  one('#whole').addEventListener('click', function () { zoom(0, 1); });

  // --- the cursor: one moment in all pictures

  var cursor = null, pinned = false, started = null;
  function placed(svg, clientX) {
    var plot = svg.querySelector('g.plot'), box = svg.getBoundingClientRect(), unit = svg.viewBox.baseVal.width / box.width;
    var left = +plot.dataset.left, width = +plot.dataset.right - left;
    return from + Math.min(Math.max(((clientX - box.left) * unit - left) / width, 0), 1) * (to - from);
  }
  function line(plot, name) {
    var svg = plot.ownerSVGElement, it = svg.querySelector('.' + name);
    if (!it) {
      it = document.createElementNS(svg.namespaceURI, 'rect');
      it.setAttribute('class', name);
      it.setAttribute('y', 0);
      it.setAttribute('height', svg.viewBox.baseVal.height);
      svg.appendChild(it);
    }
    return it;
  }
  function stretch(a, b, name) {
    near.forEach(function (plot) {
      var seen = a !== null && b >= from && a <= to;
      if (!seen && !plot.ownerSVGElement.querySelector('.' + name)) return;
      var it = line(plot, name), left = +plot.dataset.left, width = +plot.dataset.right - left;
      it.style.display = seen ? '' : 'none';
      if (!seen) return;
      var x = left + (Math.max(a, from) - from) / (to - from) * width, end = left + (Math.min(b, to) - from) / (to - from) * width;
      it.setAttribute('x', x);
      it.setAttribute('width', Math.max(end - x, 1));
    });
  }
  function point(at) {
    cursor = at;
    stretch(at, at, 'cursor');
    one('#moment').textContent = at === null ? '' : words(moment(at)) + ' UTC';
  }
  function over(event) {
    var svg = event.target.closest && event.target.closest('svg.chart');
    return svg && svg.querySelector('g.plot') ? svg : null;
  }
  document.addEventListener('pointermove', function (event) {
    if (started) {
      var now = placed(started.svg, event.clientX);
      stretch(Math.min(started.at, now), Math.max(started.at, now), 'chosen');
      return;
    }
    var svg = over(event);
    if (svg) { pinned = false; point(placed(svg, event.clientX)); } else if (cursor !== null && !pinned) point(null);
  });
  document.addEventListener('pointerdown', function (event) {
    var svg = over(event);
    if (svg && event.button === 0 && event.pointerType !== 'touch') started = { svg: svg, at: placed(svg, event.clientX), x: event.clientX };
  });
  document.addEventListener('pointerup', function (event) {
    if (!started) return;
    var begun = started, end = placed(begun.svg, event.clientX);
    started = null;
    stretch(null, null, 'chosen');
    if (Math.abs(event.clientX - begun.x) <= 5) return;
    zoom(Math.min(begun.at, end), Math.max(begun.at, end));
    point(placed(begun.svg, event.clientX));
  });
  document.addEventListener('dblclick', function (event) { if (over(event)) zoom(0, 1); });
  document.addEventListener('wheel', function (event) {
    var svg = over(event);
    if (!svg || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    around(placed(svg, event.clientX), event.deltaY < 0 ? 0.8 : 1.25);
  }, { passive: false });
  document.addEventListener('keydown', function (event) {
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    var width = to - from, steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key === '/') { event.preventDefault(); search.focus(); }
    else if (event.key === '+') one('#in').click();
    else if (event.key === '-') one('#out').click();
    else if (event.key === '0') zoom(0, 1);
    else if (event.shiftKey && steps[event.key]) zoom(from + steps[event.key] * width / 4, to + steps[event.key] * width / 4);
    else if (steps[event.key]) {
      pinned = true;
      point(Math.min(Math.max((cursor === null ? (from + to) / 2 : cursor) + steps[event.key] * width / 200, from), to));
    }
  });

  // --- from a finding to its moment, and back

  function flash(element) {
    element.classList.remove('flash');
    void element.getBoundingClientRect();
    element.classList.add('flash');
  }
  function show(finding) {
    var at = share(+finding.dataset.at);
    var lane = lanes[finding.dataset.group];
    if (lane && lane.hidden && search.value) only('');
    if (lane && lane.hidden) { everything = true; filter(); }
    if (at < from || at > to) zoom(at - (to - from) / 2, at + (to - from) / 2);
    pinned = true;
    point(at);
    var target = lane || one('.lanes') || one('#lag');
    if (target) { target.scrollIntoView({ block: 'center' }); flash(target); }
  }
  document.addEventListener('click', function (event) {
    var button = event.target.closest && event.target.closest('button.show');
    if (button) show(button.closest('[data-at]'));
  });
  function told(id) {
    var finding = document.getElementById(id), rest = finding.closest('details');
    if (rest) rest.open = true;
    if (finding.hidden && search.value) only('');
    if (finding.hidden) {
      severities.forEach(function (button) { button.setAttribute('aria-pressed', 'true'); });
      filter();
    }
    finding.scrollIntoView({ block: 'center' });
    flash(finding);
  }
  document.addEventListener('click', function (event) {
    var flag = event.target.closest && event.target.closest('[data-finding]');
    if (flag) told(flag.dataset.finding);
  });

  // --- tables

  function value(row, column) {
    var cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.toLowerCase() : +cell.dataset.v;
  }
  all('th button').forEach(function (button) {
    button.addEventListener('click', function () {
      var head = button.parentNode, body = head.closest('table').tBodies[0], column = head.cellIndex;
      var down = head.getAttribute('aria-sort') === 'ascending';
      all('th', head.parentNode).forEach(function (other) { other.removeAttribute('aria-sort'); });
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      var rows = Array.prototype.slice.call(body.rows).map(function (row, index) { return [value(row, column), index, row]; });
      rows.sort(function (a, b) { return (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (down ? -1 : 1) || a[1] - b[1]; });
      rows.forEach(function (it) { body.appendChild(it[2]); });
    });
  });
  all('button.download').forEach(function (button) {
    button.addEventListener('click', function () {
      var table = button.closest('section').querySelector('table');
      var lines = all('tr', table).filter(function (row) { return !row.hidden; }).map(function (row) {
        return Array.prototype.map.call(row.cells, function (cell) {
          var text = cell.textContent.trim();
          if (/^[=+\-@\t\r]/.test(text) && cell.dataset.v === undefined) text = "'" + text;   // a spreadsheet must not take a name for a formula
          return '"' + text.replace(/"/g, '""') + '"';
        }).join(',');
      });
      var link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([lines.join('\r\n') + '\r\n'], { type: 'text/csv' }));
      link.download = button.dataset.name + '.csv';
      link.click();
      setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
    });
  });

  var widths = new ResizeObserver(function (changes) {
    changes.forEach(function (change) {
      var scroll = change.target.classList.contains('scroll') ? change.target : change.target.parentNode;
      scroll.previousElementSibling.hidden = scroll.scrollWidth <= scroll.clientWidth + 1;
    });
  });
  all('.scroll').forEach(function (scroll) { widths.observe(scroll); widths.observe(scroll.firstElementChild); });

  // --- one scale for the lag of all groups

  var alike = one('#alike');
  if (alike) alike.addEventListener('click', function () {
    var on = alike.getAttribute('aria-pressed') !== 'true', curves = all('.rise');
    var most = Math.max.apply(null, curves.map(function (curve) { return +curve.dataset.most; }).concat([1]));
    alike.setAttribute('aria-pressed', on ? 'true' : 'false');
    curves.forEach(function (curve) {
      var base = +curve.dataset.base, factor = on ? +curve.dataset.most / most : 1;
      curve.setAttribute('transform', 'matrix(1 0 0 ' + factor + ' 0 ' + base * (1 - factor) + ')');
      var label = curve.ownerSVGElement.querySelector('text.top');
      if (!label) return;
      if (label.own === undefined) label.own = label.textContent;
      label.textContent = on ? most.toLocaleString('en') : label.own;
    });
  });

  var wanted = /^#group=(.*)$/.exec(location.hash);
  if (wanted) search.value = decodeURIComponent(wanted[1]);
  filter();
})();
