//! Accounts, users, associations and qualities of service: what may be changed and by whom, whom jobs are charged to, and which
//! limits keep them out or waiting.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use build::*;
use gpun_core::{
    Command, Refusal, TimeLimit,
    accounting::{
        AdminLevel, Change, Holder, Limit, Policy, QosChange, QosFlag, QosListChange, Rule, RuleChange, Tres,
        TresClass, change::Place, limit::LimitEdit,
    },
    command::{Act, Identity, JobChange},
    job::Owner,
    settings::{Enforce, Settings},
    spec::JobSpec,
};

const CAROL: Identity = Identity { uid: 1003, gid: 1003 };

fn account(name: &str, parent: Option<&str>) -> Change {
    let (description, organization) = (name.to_owned(), "org".to_owned());
    Change::AddAccount { name: name.to_owned(), description, organization, parent: parent.map(Into::into) }
}

fn place(account: &str, user: Option<&str>) -> Place {
    Place { account: account.to_owned(), user: user.map(Into::into), partition: None }
}

fn user(name: &str, uid: u32, accounts: &[&str]) -> Vec<Change> {
    let add = |account: &&str| Change::AddAssociation { place: place(account, Some(name)) };
    let first = Change::AddUser { name: name.to_owned(), uid: Some(uid) };
    std::iter::once(first).chain(accounts.iter().map(add)).collect()
}

fn limits(of: &[(Rule, Option<Tres>, u64)]) -> Vec<LimitEdit> {
    let edit = |(rule, tres, value): &(Rule, Option<Tres>, u64)| LimitEdit {
        limit: Limit { rule: *rule, tres: tres.clone() },
        value: Some(*value),
    };
    of.iter().map(edit).collect()
}

fn on_association(account: &str, user: Option<&str>, of: &[(Rule, Option<Tres>, u64)]) -> Change {
    let change = RuleChange { limits: limits(of), ..RuleChange::default() };
    Change::ChangeAssociation { place: place(account, user), change: Box::new(change) }
}

fn on_qos(name: &str, of: &[(Rule, Option<Tres>, u64)], flags: &[QosFlag]) -> Change {
    let change = QosChange { limits: limits(of), flags_add: flags.to_vec(), ..QosChange::default() };
    Change::ChangeQos { name: name.to_owned(), change: Box::new(change) }
}

fn qos_list(account: &str, user: Option<&str>, qos: QosListChange) -> Change {
    let change = RuleChange { qos, ..RuleChange::default() };
    Change::ChangeAssociation { place: place(account, user), change: Box::new(change) }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn change(world: &mut World, who: &Identity, changes: Vec<Change>) -> Result<u32, Refusal> {
    world.act(who, Act::Account(changes))
}

/// `lab` with `optics` below it, `chem`; Alice (1001) in both of the first, Bob (1002) in `chem`; `low` besides `normal`.
fn world() -> World {
    let mut world = World::new();
    let enforce = Enforce { associations: true, limits: true, qos: true };
    world.configure(Settings { enforce, ..settings() }, Vec::new());
    let mut changes = vec![account("lab", None), account("optics", Some("lab")), account("chem", None)];
    changes.extend(user("alice", 1001, &["lab", "optics"]));
    changes.extend(user("bob", 1002, &["chem"]));
    changes.push(Change::AddQos { name: "low".into() });
    changes.push(qos_list("lab", Some("alice"), QosListChange::Differ { add: names(&["low"]), remove: Vec::new() }));
    change(&mut world, &ROOT, changes).unwrap();
    world
}

fn owner(who: &Identity, user: &str) -> Owner {
    Owner { uid: who.uid, gid: who.gid, user: user.to_owned(), ..Owner::default() }
}

fn submit(world: &mut World, who: &Identity, user: &str, spec: JobSpec) -> Result<gpun_core::JobId, Refusal> {
    let mut submit = world.submission(who, spec);
    submit.owner = owner(who, user);
    submitted(world.apply(Command::Submit(Box::new(submit))))
}

fn named(account: Option<&str>, qos: Option<&str>) -> JobSpec {
    JobSpec { account: account.map(Into::into), qos: qos.map(Into::into), ..tasks(1) }
}

#[test]
fn jobs_are_charged_where_they_say_or_by_default() {
    let rows = [
        (ALICE, "alice", None, None, Ok(("lab", "normal"))),
        (ALICE, "alice", Some("Optics"), None, Ok(("optics", "normal"))),
        (ALICE, "alice", None, Some("low"), Ok(("lab", "low"))),
        (ALICE, "alice", Some("optics"), Some("low"), Err(Refusal::Qos)),
        (ALICE, "alice", Some("chem"), None, Err(Refusal::Account)),
        (ALICE, "alice", Some("nope"), None, Err(Refusal::Account)),
        (ALICE, "alice", None, Some("nope"), Err(Refusal::Qos)),
        (BOB, "bob", None, None, Ok(("chem", "normal"))),
        (BOB, "bob", None, Some("low"), Err(Refusal::Qos)),
        (CAROL, "carol", None, None, Err(Refusal::Account)),
        (ROOT, "root", None, None, Ok(("root", "normal"))),
    ];
    for (who, user, account, qos, want) in rows {
        let mut world = world();
        let got = submit(&mut world, &who, user, named(account, qos));
        let got = got.map(|id| {
            let spec = &world.job(id).spec;
            (spec.account.clone().unwrap_or_default(), spec.qos.clone().unwrap_or_default())
        });
        let want = want.map(|(account, qos)| (account.to_owned(), qos.to_owned()));
        assert_eq!(got, want, "{user} {account:?} {qos:?}");
    }
}

#[test]
fn without_accounts_nothing_is_enforced() {
    let mut world = World::new();
    let enforce = Enforce { associations: true, limits: true, qos: true };
    world.configure(Settings { enforce, ..settings() }, Vec::new());
    let id = submit(&mut world, &ALICE, "alice", named(Some("any"), Some("thing"))).unwrap();
    assert_eq!(world.job(id).charge, None);
}

#[test]
fn limits_keep_jobs_out_at_once() {
    let minutes =
        |minutes: u64| JobSpec { time_limit: Some(TimeLimit::Seconds(minutes * 60)), ..named(None, Some("low")) };
    let policy = |of_qos, rule, tres| Err(Refusal::Policy(Policy { of_qos, rule, tres }));
    let deny = &[QosFlag::DenyOnLimit][..];
    type Row = (Change, JobSpec, usize, Result<(), Refusal>);
    let rows: Vec<Row> = vec![
        (on_association("lab", None, &[(Rule::MaxSubmit, None, 2)]), tasks(1), 2, policy(false, Rule::MaxSubmit, None)),
        (on_association("lab", None, &[(Rule::GrpSubmit, None, 1)]), tasks(1), 1, policy(false, Rule::GrpSubmit, None)),
        (
            on_qos("normal", &[(Rule::MaxSubmitPerUser, None, 1)], &[]),
            tasks(1),
            1,
            policy(true, Rule::MaxSubmitPerUser, None),
        ),
        (on_qos("low", &[(Rule::MaxWallMin, None, 5)], &[]), minutes(6), 0, Ok(())),
        (on_qos("low", &[(Rule::MaxWallMin, None, 5)], deny), minutes(5), 0, Ok(())),
        (on_qos("low", &[(Rule::MaxWallMin, None, 5)], deny), minutes(6), 0, policy(true, Rule::MaxWallMin, None)),
        (
            on_qos("normal", &[(Rule::MaxTresPerUser, Some(Tres::Cpu), 2)], deny),
            tasks(3),
            0,
            policy(true, Rule::MaxTresPerUser, Some(TresClass::Cpu)),
        ),
    ];
    for (limit, spec, before, want) in rows {
        let mut world = world();
        change(&mut world, &ROOT, vec![limit.clone()]).unwrap();
        for _ in 0..before {
            submit(&mut world, &ALICE, "alice", spec.clone()).unwrap();
        }
        assert_eq!(submit(&mut world, &ALICE, "alice", spec).map(|_| ()), want, "{limit:?}");
    }
}

#[test]
fn limits_keep_jobs_waiting_until_others_end() {
    let policy = |of_qos, rule, tres| Some(Policy { of_qos, rule, tres });
    let rows = [
        (on_association("lab", None, &[(Rule::MaxJobs, None, 1)]), policy(false, Rule::MaxJobs, None)),
        (on_association("lab", None, &[(Rule::GrpJobs, None, 1)]), policy(false, Rule::GrpJobs, None)),
        (
            on_association("root", None, &[(Rule::GrpTres, Some(Tres::Cpu), 3)]),
            policy(false, Rule::GrpTres, Some(TresClass::Cpu)),
        ),
        (on_qos("normal", &[(Rule::MaxJobsPerUser, None, 1)], &[]), policy(true, Rule::MaxJobsPerUser, None)),
        (
            on_qos("normal", &[(Rule::MaxTresPerUser, Some(Tres::Cpu), 3)], &[]),
            policy(true, Rule::MaxTresPerUser, Some(TresClass::Cpu)),
        ),
        (
            on_qos("normal", &[(Rule::MaxTresPerAccount, Some(Tres::Memory), 3)], &[]),
            policy(true, Rule::MaxTresPerAccount, Some(TresClass::Memory)),
        ),
    ];
    for (limit, want) in rows {
        let mut world = world();
        change(&mut world, &ROOT, vec![limit.clone()]).unwrap();
        let first = submit(&mut world, &ALICE, "alice", tasks(2)).unwrap();
        let second = submit(&mut world, &ALICE, "alice", tasks(2)).unwrap();
        assert_eq!(world.state.policy_of(world.job(second), None), None, "{limit:?}");
        world.place(first, &["n1"]);
        assert_eq!(world.state.policy_of(world.job(second), None), want, "{limit:?}");
        let placement = world.placement(second, None, &["n2"]);
        assert!(matches!(world.try_place(placement), Err(Refusal::StalePlacement { .. })), "{limit:?}");
        world.act(&ROOT, Act::Cancel(one(first))).unwrap();
        assert_eq!(world.state.policy_of(world.job(second), None), None, "{limit:?}");
    }
}

#[test]
fn what_a_quality_of_service_limits_the_association_does_not() {
    let mut world = world();
    let on_both = vec![
        on_association("lab", Some("alice"), &[(Rule::MaxJobs, None, 1)]),
        on_qos("normal", &[(Rule::MaxJobsPerUser, None, 2)], &[]),
    ];
    change(&mut world, &ROOT, on_both).unwrap();
    let jobs: Vec<_> = (0..3).map(|_| submit(&mut world, &ALICE, "alice", tasks(1)).unwrap()).collect();
    world.place(jobs[0], &["n1"]);
    assert_eq!(world.state.policy_of(world.job(jobs[1]), None), None);
    world.place(jobs[1], &["n1"]);
    let over = world.state.policy_of(world.job(jobs[2]), None);
    assert_eq!(over, Some(Policy { of_qos: true, rule: Rule::MaxJobsPerUser, tres: None }));
}

#[test]
fn jobs_count_for_their_association_and_all_above() {
    let mut world = world();
    let id = submit(&mut world, &ALICE, "alice", named(Some("optics"), None)).unwrap();
    submit(&mut world, &BOB, "bob", tasks(1)).unwrap();
    world.place(id, &["n1"]);
    let counted = |world: &World, account: &str, user: Option<&str>| {
        let one = world.state.book().at(&place(account, user)).unwrap();
        let used = world.state.used(&Holder::Association(one.id)).cloned().unwrap_or_default();
        (used.jobs, used.submitted, used.tres(&Tres::Cpu))
    };
    for (account, user, want) in [
        ("optics", Some("alice"), (1, 1, 1)),
        ("optics", None, (1, 1, 1)),
        ("lab", Some("alice"), (0, 0, 0)),
        ("lab", None, (1, 1, 1)),
        ("chem", None, (0, 1, 0)),
        ("root", None, (1, 2, 1)),
    ] {
        assert_eq!(counted(&world, account, user), want, "{account} {user:?}");
    }
    // An account that moves takes what its jobs use along.
    let (name, parent) = ("optics".to_owned(), Some("chem".to_owned()));
    let moved = Change::ChangeAccount { name, description: None, organization: None, parent };
    change(&mut world, &ROOT, vec![moved]).unwrap();
    assert_eq!(counted(&world, "lab", None), (0, 0, 0));
    assert_eq!(counted(&world, "chem", None), (1, 2, 1));
    // So does a job.
    let to_lab = JobChange { account: Some("lab".into()), ..JobChange::default() };
    let waiting = submit(&mut world, &ALICE, "alice", named(Some("optics"), None)).unwrap();
    world.act(&ALICE, update(waiting, to_lab)).unwrap();
    assert_eq!(counted(&world, "lab", Some("alice")), (0, 1, 0));
}

#[test]
fn contradictions_are_refused_as_a_whole() {
    let in_use = |what: &str| Err(Refusal::RecordInUse { what: what.to_owned() });
    let up = |name: &str, parent: &str| Change::ChangeAccount {
        name: name.into(),
        description: None,
        organization: None,
        parent: Some(parent.into()),
    };
    let rows: Vec<(Vec<Change>, Result<u32, Refusal>)> = vec![
        (vec![account("lab", None)], Err(Refusal::RecordExists { what: "account lab".into() })),
        (vec![account("x", Some("y"))], Err(Refusal::UnknownRecord { what: "account y".into() })),
        (vec![account("new", None), account("lab", None)], Err(Refusal::RecordExists { what: "account lab".into() })),
        (vec![up("lab", "optics")], Err(Refusal::Invalid { what: "account optics above lab".into() })),
        (vec![up("root", "lab")], Err(Refusal::Invalid { what: "account lab above root".into() })),
        (
            vec![Change::RemoveAssociation { place: place("lab", Some("alice")) }],
            in_use("the default account of user alice"),
        ),
        (vec![Change::RemoveAccount { name: "lab".into() }], in_use("the default account of user alice")),
        (vec![Change::RemoveAccount { name: "root".into() }], in_use("account root")),
        (vec![Change::RemoveAssociation { place: place("optics", Some("alice")) }], Ok(1)),
        (vec![Change::RemoveUser { name: "alice".into() }, Change::RemoveAccount { name: "lab".into() }], Ok(2)),
        (vec![Change::RemoveQos { name: "low".into() }], Ok(1)),
        (
            vec![Change::RemoveQos { name: "none".into() }],
            Err(Refusal::UnknownRecord { what: "quality of service none".into() }),
        ),
        (vec![qos_list("lab", None, QosListChange::Exactly(names(&["none"])))], Err(Refusal::Qos)),
    ];
    for (changes, want) in rows {
        assert_eq!(change(&mut world(), &ROOT, changes.clone()), want, "{changes:?}");
    }
    let mut world = world();
    submit(&mut world, &BOB, "bob", tasks(1)).unwrap();
    let gone = vec![Change::RemoveUser { name: "bob".into() }];
    assert_eq!(change(&mut world, &ROOT, gone), in_use("an association with jobs"));
}

#[test]
fn operators_change_all_and_coordinators_what_is_theirs() {
    let admin = |name: &str, level| Change::ChangeUser {
        name: name.into(),
        uid: None,
        default_account: None,
        admin: Some(level),
        default_wckey: None,
    };
    let default = |name: &str, account: &str| Change::ChangeUser {
        name: name.into(),
        uid: None,
        default_account: Some(account.into()),
        admin: None,
        default_wckey: None,
    };
    let add = |account: &str| Change::AddAssociation { place: place(account, Some("bob")) };
    let limit = |account: &str| on_association(account, Some("alice"), &[(Rule::MaxJobs, None, 1)]);
    let under = |name: &str| account("new", Some(name));
    // Who, what, and whether it is allowed. Carol coordinates `lab`; Dave is an operator.
    let dave = Identity { uid: 1004, gid: 1004 };
    let rows = [
        (ALICE, under("lab"), false),
        (ALICE, limit("lab"), false),
        (ALICE, default("alice", "optics"), true),
        (ALICE, default("bob", "chem"), false),
        (ALICE, admin("alice", AdminLevel::Operator), false),
        (CAROL, under("lab"), true),
        (CAROL, under("optics"), true),
        (CAROL, under("chem"), false),
        (CAROL, account("new", None), false),
        (CAROL, add("optics"), true),
        (CAROL, limit("lab"), true),
        (CAROL, Change::AddQos { name: "x".into() }, false),
        (CAROL, admin("alice", AdminLevel::Operator), false),
        (dave.clone(), under("chem"), true),
        (dave.clone(), Change::AddQos { name: "x".into() }, true),
        (dave.clone(), admin("alice", AdminLevel::Operator), true),
        (dave.clone(), admin("dave", AdminLevel::Administrator), false),
        (OPERATOR, Change::AddQos { name: "x".into() }, true),
        (ROOT, admin("dave", AdminLevel::Administrator), true),
    ];
    for (who, what, allowed) in rows {
        let mut world = world();
        let mut changes = user("carol", 1003, &["lab"]);
        changes.push(Change::AddCoordinator { account: "lab".into(), user: "carol".into() });
        changes.extend(user("dave", 1004, &["chem"]));
        changes.push(admin("dave", AdminLevel::Operator));
        change(&mut world, &ROOT, changes).unwrap();
        let got = change(&mut world, &who, vec![what.clone()]);
        assert_eq!(got, if allowed { Ok(1) } else { Err(Refusal::AccessDenied) }, "{} {what:?}", who.uid);
    }
    // An operator by accounting acts on others' jobs too.
    let mut world = world();
    let mut changes = user("dave", 1004, &["chem"]);
    changes.push(admin("dave", AdminLevel::Operator));
    change(&mut world, &ROOT, changes).unwrap();
    let id = submit(&mut world, &ALICE, "alice", tasks(1)).unwrap();
    assert_eq!(world.act(&dave, Act::Cancel(one(id))), Ok(1));
}

#[test]
fn lists_of_qualities_of_service_follow_the_account_above() {
    let differ = |add: &[&str], remove: &[&str]| QosListChange::Differ { add: names(add), remove: names(remove) };
    let exactly = |list: &[&str]| QosListChange::Exactly(names(list));
    let rows = [
        (vec![], vec!["normal"]),
        (vec![("lab", None, differ(&["low"], &[]))], vec!["normal", "low"]),
        (vec![("lab", None, differ(&["low"], &[])), ("optics", Some("alice"), differ(&[], &["normal"]))], vec!["low"]),
        (vec![("optics", Some("alice"), exactly(&["low"])), ("root", None, exactly(&["normal", "low"]))], vec!["low"]),
        (vec![("optics", Some("alice"), exactly(&["low"])), ("optics", Some("alice"), exactly(&[]))], vec!["normal"]),
        (
            vec![("optics", Some("alice"), differ(&["low"], &[])), ("optics", Some("alice"), differ(&[], &["low"]))],
            vec!["normal"],
        ),
    ];
    for (changes, want) in rows {
        let mut world = world();
        for (account, user, list) in &changes {
            change(&mut world, &ROOT, vec![qos_list(account, *user, list.clone())]).unwrap();
        }
        let book = world.state.book();
        let ids = book.qos_of(book.at(&place("optics", Some("alice"))).unwrap());
        let got: Vec<&str> = ids.iter().filter_map(|id| book.qos(*id)).map(|qos| qos.name.as_str()).collect();
        assert_eq!(got, want, "{changes:?}");
    }
}
