//! What of accounting keeps a job from being taken or started. A limit of the quality of service stands before the same limit of
//! the association.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use super::{
    Association, Limits, Qos, QosFlag, Rule, Tres, TresClass,
    usage::{Charge, Holder, Used, asked, by_starting},
};
use crate::{
    Refusal, State, TimeLimit,
    job::{Job, Owner},
    spec::JobSpec,
};

/// A limit that a job is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Policy {
    /// Of the quality of service, else of an association.
    #[n(0)]
    pub of_qos: bool,
    /// The rule.
    #[n(1)]
    pub rule: Rule,
    /// The resource.
    #[n(2)]
    pub tres: Option<TresClass>,
}

/// Whom a submission is charged to, with the names to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charged {
    /// Numbers.
    pub charge: Charge,
    /// The account.
    pub account: Option<String>,
    /// The quality of service.
    pub qos: Option<String>,
}

/// What a plan started: counted on top of what the state has.
#[derive(Debug, Clone, Default)]
pub struct Tally(BTreeMap<Holder, Used>);

impl Tally {
    /// Counts a job that starts.
    pub fn start(&mut self, state: &State, job: &Job) {
        let Some(charge) = job.charge.filter(|_| state.settings.enforce.limits) else { return };
        let own = by_starting(state, job);
        for holder in state.book.holders(charge, job.owner.uid) {
            self.0.entry(holder).or_default().add(&own);
        }
    }
}

/// The records whose limits hold for a job.
struct Bounds<'a> {
    qos: Option<&'a Qos>,
    chain: Vec<&'a Association>,
    /// The association's own limits and those that it takes over.
    own: Limits,
    charge: Charge,
    uid: u32,
}

/// How many a limit is looked at with.
struct Ask<'a> {
    state: &'a State,
    tally: Option<&'a Tally>,
    more: &'a Used,
}

impl Ask<'_> {
    fn have(&self, holder: &Holder, of: impl Fn(&Used) -> u64) -> u64 {
        let started = self.tally.and_then(|tally| tally.0.get(holder));
        self.state.used(holder).map_or(0, &of).saturating_add(started.map_or(0, &of))
    }

    fn over(&self, holder: &Holder, limit: Option<u64>, of: impl Fn(&Used) -> u64) -> bool {
        limit.is_some_and(|limit| self.have(holder, &of).saturating_add(of(self.more)) > limit)
    }

    /// The first resource of a rule that would be over.
    fn tres_over(
        &self,
        holder: &Holder,
        limits: &Limits,
        rule: Rule,
        skip: &dyn Fn(&Tres) -> bool,
    ) -> Option<TresClass> {
        limits.of(rule).find_map(|(tres, limit)| {
            let tres = tres.filter(|tres| !skip(tres) && self.more.tres(tres) > 0)?;
            self.over(holder, Some(limit), |used| used.tres(tres)).then(|| tres.class())
        })
    }
}

impl<'a> Bounds<'a> {
    fn new(state: &'a State, charge: Charge, uid: u32) -> Self {
        let association = charge.association.and_then(|id| state.book.association(id));
        let chain: Vec<&Association> = association.into_iter().flat_map(|one| state.book.chain(one)).collect();
        let own = association.map(|one| state.book.limits_of(one)).unwrap_or_default();
        let qos = charge.qos.and_then(|id| state.book.qos(id)).map(|qos| &**qos);
        Self { qos, chain, own, charge, uid }
    }

    /// Holders in the quality of service with their limits: the whole, each account, each user.
    fn in_qos(&self) -> Vec<(Holder, &'a Limits, [Rule; 3])> {
        let Some(qos) = self.qos else { return Vec::new() };
        let account = self.chain.first().map(|one| one.account.clone()).unwrap_or_default();
        vec![
            (Holder::Qos(qos.id), &qos.limits, [Rule::GrpJobs, Rule::GrpSubmit, Rule::GrpTres]),
            (
                Holder::QosAccount(qos.id, account),
                &qos.limits,
                [Rule::MaxJobsPerAccount, Rule::MaxSubmitPerAccount, Rule::MaxTresPerAccount],
            ),
            (
                Holder::QosUser(qos.id, self.uid),
                &qos.limits,
                [Rule::MaxJobsPerUser, Rule::MaxSubmitPerUser, Rule::MaxTresPerUser],
            ),
        ]
    }

    /// True where the quality of service says something in place of the association.
    fn qos_says(&self, rule: Rule, tres: Option<&Tres>) -> bool {
        let instead = match rule {
            Rule::MaxJobs => [Rule::MaxJobsPerUser, Rule::MaxJobsPerAccount],
            Rule::MaxSubmit => [Rule::MaxSubmitPerUser, Rule::MaxSubmitPerAccount],
            other => [other, other],
        };
        self.qos.is_some_and(|qos| {
            let said = |rule| qos.limits.of(rule).any(|(of, _)| of == tres);
            instead.into_iter().any(said)
        })
    }

    /// The first limit on the number of jobs that would be passed: of those that run, or of those that are there.
    fn jobs_over(&self, ask: &Ask<'_>, submits: bool) -> Option<Policy> {
        let count = |used: &Used| if submits { used.submitted } else { used.jobs };
        let policy = |of_qos, rule| Policy { of_qos, rule, tres: None };
        for (holder, limits, [jobs, submit, _]) in self.in_qos() {
            let rule = if submits { submit } else { jobs };
            if ask.over(&holder, limits.plain(rule), count) {
                return Some(policy(true, rule));
            }
        }
        let (grp, max) = if submits { (Rule::GrpSubmit, Rule::MaxSubmit) } else { (Rule::GrpJobs, Rule::MaxJobs) };
        for one in &self.chain {
            if !self.qos_says(grp, None) && ask.over(&Holder::Association(one.id), one.limits.plain(grp), count) {
                return Some(policy(false, grp));
            }
        }
        let own = self.charge.association.map(Holder::Association)?;
        let over = !self.qos_says(max, None) && ask.over(&own, self.own.plain(max), count);
        over.then(|| policy(false, max))
    }

    /// The first limit of the job alone that it is over, whatever others do.
    fn job_over(&self, asked: &BTreeMap<Tres, u64>, nodes: u64, time: Option<TimeLimit>) -> Option<Policy> {
        let minutes = time.map(|limit| limit.seconds().map_or(u64::MAX, |seconds| seconds.div_ceil(60)));
        let both = [(true, self.qos.map(|qos| &qos.limits)), (false, Some(&self.own))];
        for (of_qos, limits) in both.into_iter().filter_map(|(of_qos, limits)| Some((of_qos, limits?))) {
            let counts = |rule, tres: Option<&Tres>| of_qos || !self.qos_says(rule, tres);
            let wall = limits.plain(Rule::MaxWallMin).zip(minutes).is_some_and(|(most, asks)| asks > most);
            if wall && counts(Rule::MaxWallMin, None) {
                return Some(Policy { of_qos, rule: Rule::MaxWallMin, tres: None });
            }
            for rule in [Rule::MaxTres, Rule::MaxTresPerNode, Rule::MaxTresMin, Rule::MinTres] {
                for (tres, limit) in limits.of(rule) {
                    let Some(tres) = tres.filter(|tres| counts(rule, Some(tres))) else { continue };
                    let asks = asked.get(tres).copied().unwrap_or(0);
                    let over = match rule {
                        Rule::MaxTresPerNode => asks.div_ceil(nodes.max(1)) > limit,
                        Rule::MaxTresMin => minutes.is_some_and(|minutes| asks.saturating_mul(minutes) > limit),
                        Rule::MinTres => asks < limit,
                        _ => asks > limit,
                    };
                    if over {
                        return Some(Policy { of_qos, rule, tres: Some(tres.class()) });
                    }
                }
            }
        }
        None
    }

    /// The first limit on what is held together that would be passed.
    fn tres_over(&self, ask: &Ask<'_>) -> Option<Policy> {
        for (holder, limits, [_, _, rule]) in self.in_qos() {
            if let Some(class) = ask.tres_over(&holder, limits, rule, &|_| false) {
                return Some(Policy { of_qos: true, rule, tres: Some(class) });
            }
        }
        let rule = Rule::GrpTres;
        self.chain.iter().find_map(|one| {
            let skip = |tres: &Tres| self.qos_says(rule, Some(tres));
            let class = ask.tres_over(&Holder::Association(one.id), &one.limits, rule, &skip)?;
            Some(Policy { of_qos: false, rule, tres: Some(class) })
        })
    }
}

impl State {
    /// Whom a submission would be charged to; `None` where there are no accounts at all.
    ///
    /// # Errors
    /// The account or the quality of service is not known, or not for this user where that is enforced.
    pub fn charged(&self, owner: &Owner, spec: &JobSpec) -> Result<Option<Charged>, Refusal> {
        if !self.book.is_founded() {
            return Ok(None);
        }
        let user = self.book.user(&owner.user.to_lowercase());
        let named = spec.account.as_ref().filter(|name| !name.is_empty()).map(|name| name.to_lowercase());
        let account = named.or_else(|| user?.default_account.clone());
        let partition = spec.partitions.first().or_else(|| self.default_partition().map(|partition| &partition.name));
        let association = account
            .as_deref()
            .zip(user)
            .and_then(|(account, user)| self.book.charged(account, &user.name, partition.map(String::as_str)));
        if association.is_none() && self.settings.enforce.associations {
            return Err(Refusal::Account);
        }
        let allowed = association.map(|one| self.book.qos_of(one)).unwrap_or_default();
        let qos = match spec.qos.as_ref().filter(|name| !name.is_empty()) {
            Some(name) => Some(self.book.qos_named(&name.to_lowercase()).ok_or(Refusal::Qos)?.id),
            None => association
                .and_then(|one| self.book.default_qos_of(one))
                .or_else(|| if let [only] = allowed.as_slice() { Some(*only) } else { self.book.normal_qos() }),
        };
        if self.settings.enforce.qos && association.is_some() && !qos.is_some_and(|qos| allowed.contains(&qos)) {
            return Err(Refusal::Qos);
        }
        let qos_name = qos.and_then(|qos| self.book.qos(qos)).map(|qos| qos.name.clone());
        let charge = Charge { association: association.map(|one| one.id), qos };
        Ok(Some(Charged { charge, account, qos: qos_name }))
    }

    /// Refuses a submission that limits never let in: too many jobs, or over a limit of a quality of service that says so at once.
    pub(crate) fn admit_charge(&self, charge: Charge, owner: &Owner, spec: &JobSpec) -> Result<(), Refusal> {
        if !self.settings.enforce.limits {
            return Ok(());
        }
        let bounds = Bounds::new(self, charge, owner.uid);
        let count = spec.array.as_ref().map_or(1, |array| array.tasks.len());
        let more = Used { jobs: 0, submitted: count, tres: BTreeMap::new() };
        let over = bounds.jobs_over(&Ask { state: self, tally: None, more: &more }, true).or_else(|| {
            bounds.qos.filter(|qos| qos.has(QosFlag::DenyOnLimit))?;
            let asked = asked(self, spec);
            let nodes = u64::from(spec.nodes_min());
            bounds.job_over(&asked, nodes, spec.time_limit).or_else(|| {
                // Alone, without what others have.
                let empty = Self::default();
                let more = Used { jobs: 1, submitted: 0, tres: asked };
                bounds.tres_over(&Ask { state: &empty, tally: None, more: &more })
            })
        });
        over.map_or(Ok(()), |policy| Err(Refusal::Policy(policy)))
    }

    /// The limit that keeps a job from starting now, with what a plan started before it.
    pub fn policy_of(&self, job: &Job, tally: Option<&Tally>) -> Option<Policy> {
        let charge = job.charge.filter(|_| self.settings.enforce.limits)?;
        let bounds = Bounds::new(self, charge, job.owner.uid);
        let more = by_starting(self, job);
        let ask = Ask { state: self, tally, more: &more };
        bounds
            .jobs_over(&ask, false)
            .or_else(|| bounds.job_over(&more.tres, u64::from(job.spec.nodes_min()), Some(job.time_limit)))
            .or_else(|| bounds.tres_over(&ask))
    }
}
