//! Which nodes a request gets, and how its tasks are spread over them.

use crate::{level::Levels, shape::Shape, table::Table, view::View};

/// Nodes with the tasks on each, in the order of their names.
pub(crate) type Picked = Vec<(u32, u32)>;

/// Looks for nodes for a request among what is free now, from where the last search of the same request ended.
///
/// Returns what was picked, if anything; counts its tests of nodes into `tests`.
pub(crate) fn pick_now(
    table: &Table<'_>,
    view: &View,
    shape: &mut Shape<'_>,
    later: bool,
    tests: &mut u64,
) -> Option<Picked> {
    let mut search = shape.search[usize::from(later)];
    if search.over {
        return None;
    }
    let levels = table.levels(later);
    let found = Pick { table, view, shape, levels, tests }.pick(&mut search, later);
    search.over = found.is_none();
    shape.search[usize::from(later)] = search;
    found
}

/// Looks for nodes for a request among what is free by other levels than the present ones.
pub(crate) fn pick_at(
    table: &Table<'_>,
    view: &View,
    shape: &Shape<'_>,
    levels: &Levels,
    tests: &mut u64,
) -> Option<Picked> {
    Pick { table, view, shape, levels, tests }.pick_scanning()
}

struct Pick<'p, 'a> {
    table: &'p Table<'a>,
    view: &'p View,
    shape: &'p Shape<'a>,
    levels: &'p Levels,
    tests: &'p mut u64,
}

impl Pick<'_, '_> {
    fn tasks_on(&mut self, slot: u32) -> u32 {
        *self.tests += 1;
        self.table.tasks_on(self.shape, slot, self.levels, false)
    }

    /// As [`Self::tasks_on`], for a node that takes part alone.
    fn tasks_alone_on(&mut self, slot: u32) -> u32 {
        *self.tests += 1;
        self.table.tasks_on(self.shape, slot, self.levels, true)
    }

    /// True if these nodes together have what the whole job asks for of generic resources.
    fn has_total(&self, chosen: &Picked) -> bool {
        let request = &self.shape.request;
        if request.gres_total.is_empty() {
            return true;
        }
        let spread = self.table.spread_total(request, chosen, self.levels);
        let given = |kind: usize| spread.iter().map(|counts| u64::from(counts[kind])).sum::<u64>();
        request.gres_total.iter().enumerate().all(|(kind, one)| given(kind) >= u64::from(one.count))
    }

    fn pick(mut self, search: &mut crate::shape::Search, later: bool) -> Option<Picked> {
        let (view, request) = (self.view, &self.shape.request);
        if request.may_be_one_node() {
            let tasks = request.tasks_on_one();
            let bound = request.bound(tasks);
            let one =
                view.find(later, search.from, &bound, |slot| (self.tasks_alone_on(slot) >= tasks).then_some(slot));
            match one {
                Some((place, slot)) => {
                    search.from = place;
                    if self.is_lightest(slot) || request.nodes_max <= 1 || tasks <= 1 {
                        return Some(vec![(slot, tasks)]);
                    }
                }
                None if request.needs_one_node() => return None,
                None => search.from = view.slots.len(),
            }
        }
        let bound = self.shape.request.bound(self.shape.request.tasks_least());
        let mut next = |pick: &mut Self, from: usize| {
            view.find(later, from, &bound, |slot| Some(pick.tasks_on(slot)).filter(|tasks| *tasks > 0))
        };
        self.pick_many(&mut next)
    }

    fn pick_scanning(mut self) -> Option<Picked> {
        let (view, request) = (self.view, &self.shape.request);
        if request.may_be_one_node() {
            let tasks = request.tasks_on_one();
            let one = view.slots.iter().find(|slot| self.tasks_alone_on(**slot) >= tasks);
            match one {
                Some(slot) if self.is_lightest(*slot) || request.nodes_max <= 1 || tasks <= 1 => {
                    return Some(vec![(*slot, tasks)]);
                }
                Some(_) => {}
                None if request.needs_one_node() => return None,
                None => {}
            }
        }
        let mut next = |pick: &mut Self, from: usize| {
            (from..view.slots.len()).find_map(|place| match pick.tasks_on(view.slots[place]) {
                0 => None,
                tasks => Some((place, tasks)),
            })
        };
        self.pick_many(&mut next)
    }

    /// Required nodes first, then others by weight: as few as will do, the first ones where it makes no difference.
    fn pick_many(mut self, next: &mut impl FnMut(&mut Self, usize) -> Option<(usize, u32)>) -> Option<Picked> {
        let request = &self.shape.request;
        if self.shape.required_missing || self.shape.required.len() > request.nodes_max as usize {
            return None;
        }
        let mut must = Picked::new();
        for slot in &self.shape.required {
            match self.tasks_on(*slot) {
                0 => return None,
                tasks => must.push((*slot, tasks)),
            }
        }
        if request.contiguous {
            return self.pick_neighbours(must, next);
        }
        let mut others = Picked::new();
        let mut from = 0;
        let mut weight = None;
        loop {
            if let Some(chosen) = self.enough(&must, &others, false, false) {
                return Some(self.spread(chosen));
            }
            let found = next(&mut self, from);
            let new_weight = found.map(|(place, _)| self.weight(self.view.slots[place]));
            if new_weight != weight
                && let Some(chosen) = self.enough(&must, &others, true, found.is_none())
            {
                return Some(self.spread(chosen));
            }
            weight = new_weight;
            let (place, tasks) = found?;
            from = place + 1;
            let slot = self.view.slots[place];
            if self.shape.required.binary_search(&slot).is_err() {
                others.push((slot, tasks));
            }
        }
    }

    /// True for nodes of the lowest weight; before a heavier one, several lighter ones are tried.
    fn is_lightest(&self, slot: u32) -> bool {
        self.view.slots.first().is_some_and(|first| self.weight(*first) == self.weight(slot))
    }

    fn weight(&self, slot: u32) -> u32 {
        self.table.slots[slot as usize].node.inventory.weight
    }

    /// A choice among the candidates so far. With `all`, no better candidates of the same weight follow; with `last`, none.
    fn enough(&self, must: &Picked, others: &Picked, all: bool, last: bool) -> Option<Picked> {
        let request = &self.shape.request;
        if request.spread {
            return if last { self.widest(must, others) } else { None };
        }
        if !request.gres_total.is_empty() {
            return self.enough_for_total(must, others);
        }
        let count = must.len() + others.len();
        let wanted = (request.nodes_wanted as usize).max(must.len());
        if count < request.nodes_min as usize || (count < wanted && !(all && request.tasks.is_none())) {
            return None;
        }
        let total = |picked: &[(u32, u32)]| picked.iter().map(|(_, tasks)| u64::from(*tasks)).sum::<u64>();
        let tasks = u64::from(request.tasks.unwrap_or(0));
        let first = others.len().min(wanted - must.len());
        let together = |others: &[(u32, u32)]| must.iter().chain(others).copied().collect::<Picked>();
        if (all || count == wanted) && total(must) + total(&others[..first]) >= tasks {
            return Some(together(&others[..first]));
        }
        if !all {
            return None;
        }
        let mut largest = others.clone();
        largest.sort_by_key(|(_, tasks)| std::cmp::Reverse(*tasks));
        let most = largest.len().min(request.nodes_max as usize - must.len());
        (first..=most).find(|few| total(must) + total(&largest[..*few]) >= tasks).map(|few| together(&largest[..few]))
    }

    /// As many nodes as may be, each with a task.
    fn widest(&self, must: &Picked, others: &Picked) -> Option<Picked> {
        let most = self.shape.request.nodes_max.min(self.shape.request.tasks.unwrap_or(u32::MAX)) as usize;
        let few = others.len().min(most.saturating_sub(must.len()));
        self.does(must.iter().chain(&others[..few]).copied().collect())
    }

    /// Nodes with enough of what the whole job asks for: in the order of the candidates, or those with the most of it where
    /// that would be too many nodes.
    fn enough_for_total(&self, must: &Picked, others: &Picked) -> Option<Picked> {
        let request = &self.shape.request;
        let room = (request.nodes_max as usize).saturating_sub(must.len());
        if must.len() + others.len() < request.nodes_wanted as usize {
            return None;
        }
        if others.len() <= room {
            return self.does(must.iter().chain(others).copied().collect());
        }
        let mut richest = others.clone();
        let free = |slot: u32| self.levels.gres_of(slot as usize).iter().map(|count| u64::from(*count)).sum::<u64>();
        richest.sort_by_key(|(slot, _)| std::cmp::Reverse(free(*slot)));
        self.does(must.iter().chain(&richest[..room]).copied().collect())
    }

    /// A choice, if its nodes will do.
    fn does(&self, chosen: Picked) -> Option<Picked> {
        let request = &self.shape.request;
        let total: u64 = chosen.iter().map(|(_, tasks)| u64::from(*tasks)).sum();
        let does = !chosen.is_empty()
            && chosen.len() >= request.nodes_min as usize
            && total >= u64::from(request.tasks.unwrap_or(0))
            && self.has_total(&self.spread(chosen.clone()));
        does.then_some(chosen)
    }

    /// The first run of neighbours, without a gap, that will do.
    fn pick_neighbours(
        mut self,
        must: Picked,
        next: &mut impl FnMut(&mut Self, usize) -> Option<(usize, u32)>,
    ) -> Option<Picked> {
        let request = &self.shape.request;
        let (least, most) = (request.nodes_wanted.max(1) as usize, request.nodes_max as usize);
        let mut run: Vec<(usize, u32, u32)> = Vec::new();
        let mut from = 0;
        while let Some((place, tasks)) = next(&mut self, from) {
            from = place + 1;
            if run.last().is_some_and(|(last, _, _)| last + 1 != place) {
                run.clear();
            }
            run.push((place, self.view.slots[place], tasks));
            if run.len() > most {
                run.remove(0);
            }
            let total: u64 = run.iter().map(|(_, _, tasks)| u64::from(*tasks)).sum();
            let has_all = must.iter().all(|(slot, _)| run.iter().any(|(_, here, _)| here == slot));
            if run.len() >= least && has_all && total >= u64::from(request.tasks.unwrap_or(0)) {
                let chosen = run.iter().map(|(_, slot, tasks)| (*slot, *tasks)).collect();
                let spread = self.spread(chosen);
                if self.has_total(&spread) {
                    return Some(spread);
                }
            }
        }
        None
    }

    /// One task to each node, then the nodes are filled in order (the block distribution). Given what fits on each.
    fn spread(&self, chosen: Picked) -> Picked {
        let mut chosen = chosen;
        chosen.sort_by_key(|(slot, _)| self.table.slots[*slot as usize].rank);
        let Some(tasks) = self.shape.request.tasks else { return chosen };
        let mut left = tasks.saturating_sub(chosen.len() as u32);
        let mut one_each = tasks;
        for (_, here) in &mut chosen {
            let first = one_each.min(1);
            one_each -= first;
            let more = left.min(here.saturating_sub(first));
            left -= more;
            *here = first + more;
        }
        chosen
    }
}
