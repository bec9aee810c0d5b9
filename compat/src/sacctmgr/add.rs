//! `add` and `create`.

use gpun_core::accounting::{Change, QosChange, RuleChange, change::Place};

use super::{
    Proposal, Stop, World, association_line,
    settings::{self, Taken},
    show::{admin_level, admin_name},
    words::{Entity, Word, clauses, entity},
};

/// What an `add` would do.
///
/// # Errors
/// What is to be printed instead.
pub fn add(world: &World, words: &[String]) -> Result<Proposal, Stop> {
    let Some(what) = words.first().and_then(|word| entity(word)) else { return Err(no_entity()) };
    let words = clauses(words.get(1..).unwrap_or_default());
    let words: Vec<Word> = words.condition.into_iter().chain(words.set).collect();
    match what {
        Entity::Account => account(world, &words),
        Entity::User => user(world, &words),
        Entity::Qos => qos(world, &words),
        Entity::Coordinator => coordinator(world, &words),
        Entity::Cluster => cluster(world, &words),
        Entity::Federation | Entity::Resource | Entity::Wckey => Err(Stop::err(
            "sacctmgr: error: gpunion keeps accounts, users, associations and qualities of service only\n",
        )),
        _ => Err(no_entity()),
    }
}

fn no_entity() -> Stop {
    Stop::err(
        "No valid entity in add command\n\
         Input line must include \"Account\", \"Cluster\", \"Coordinator\",\n\
         \"Federation\", \"QOS\", \"Resource\", \"User\", or \"WCKey\"\n",
    )
}

pub(super) fn unknown(word: &Word) -> Stop {
    Stop::out(format!(" Unknown option: {}\n", word.text))
}

/// Names that words without a key give, and those of `names=`.
fn take_names(word: &Word, names: &mut Vec<String>) -> bool {
    let is_name = word.key.is_empty() || word.is("names", 1);
    if is_name {
        names.extend(word.names());
    }
    is_name
}

fn is_other_cluster(world: &World, word: &Word) -> Option<Stop> {
    let other = word.names().into_iter().find(|name| *name != world.cluster.to_lowercase())?;
    Some(Stop::err(format!(" The cluster '{other}' doesn't exist. Please add cluster before adding to it.\n")))
}

fn cluster(world: &World, words: &[Word]) -> Result<Proposal, Stop> {
    let mut names = Vec::new();
    let mut change = RuleChange::default();
    for word in words {
        match settings::rule(&world.book, word, &mut change) {
            _ if take_names(word, &mut names) => {}
            Taken::Yes => {}
            Taken::No => return Err(unknown(word)),
            Taken::Bad(text) => return Err(Stop::out(text)),
        }
    }
    if names.is_empty() {
        return Err(Stop::err(" Need name of cluster to add.\n"));
    }
    if let Some(other) = names.iter().find(|name| **name != world.cluster.to_lowercase()) {
        return Err(Stop::err(format!(
            "sacctmgr: error: this is the accounting of cluster {}; {other} keeps its own\n",
            world.cluster
        )));
    }
    if world.book.is_founded() {
        return Err(Stop::out(format!(" This cluster {} already exists.  Not adding.\n", world.cluster)));
    }
    let mut changes = vec![Change::Found];
    if change != RuleChange::default() {
        let place = Place { account: gpun_core::accounting::ROOT.to_owned(), ..Place::default() };
        changes.push(Change::ChangeAssociation { place, change: Box::new(change.clone()) });
    }
    let mut text = format!(" Adding Cluster(s)\n  Name           = {}\n", world.cluster);
    let lines = settings::rule_lines(&change);
    if !lines.is_empty() {
        text.push_str(&format!(" Setting\n  Default Limits:\n{lines}"));
    }
    Ok(Proposal { text, changes, trouble: " Problem adding clusters: " })
}

fn account(world: &World, words: &[Word]) -> Result<Proposal, Stop> {
    let (mut names, mut parent, mut description, mut organization) = (Vec::new(), None, None, None);
    let mut rules = RuleChange::default();
    let mut says_more = false;
    for word in words {
        if take_names(word, &mut names) || word.is("accounts", 2) {
            if !word.key.is_empty() && !word.is("names", 1) {
                names.extend(word.names());
            }
            continue;
        }
        if word.is("clusters", 1) {
            if let Some(stop) = is_other_cluster(world, word) {
                return Err(stop);
            }
            continue;
        }
        says_more = true;
        if word.is("parents", 1) && !word.is("partition", 4) {
            parent = word.names().into_iter().next();
        } else if word.is("description", 3) {
            description = Some(word.value.clone());
        } else if word.is("organization", 1) {
            organization = Some(word.value.clone());
        } else {
            match settings::rule(&world.book, word, &mut rules) {
                Taken::Yes => {}
                Taken::No => return Err(unknown(word)),
                Taken::Bad(text) => return Err(Stop::out(text)),
            }
        }
    }
    if names.is_empty() {
        return Err(Stop::err(" Need name of account to add.\n"));
    }
    if !world.is_operator && !world.is_coordinator() {
        return Err(Stop::err(" error: Only admins/operators/coordinators can add accounts\n"));
    }
    if let Some(parent) = parent.as_ref().filter(|parent| world.book.account(parent).is_none()) {
        return Err(Stop::err(format!(" error: No parent account '{parent}' on cluster '{}'\n", world.cluster)));
    }
    let new: Vec<&String> = names.iter().filter(|name| world.book.account(name).is_none()).collect();
    if new.is_empty() {
        let line = |name: &String| format!(" Already existing account {name} on cluster {}\n", world.cluster);
        return Err(Stop::out(names.iter().map(line).collect::<String>()));
    }
    let list: String = new.iter().map(|name| format!("  {name}\n")).collect();
    let lines: String = new.iter().map(|name| association_line(&world.cluster, name, None)).collect();
    let mut text = format!(
        " Adding Account(s)\n{list} Settings\n  Description     = {}\n  Organization    = {}\n Associations =\n{lines}",
        description.as_deref().unwrap_or("Account Name"),
        organization.as_deref().unwrap_or("Parent/Account Name"),
    );
    if says_more {
        text.push_str(&format!(" Settings\n{}", settings::rule_lines(&rules)));
        if let Some(parent) = &parent {
            text.push_str(&format!("  {:<14}= {parent}\n", "Parent"));
        }
    }
    let mut changes = Vec::new();
    for name in new {
        changes.push(Change::AddAccount {
            name: name.clone(),
            description: description.clone().unwrap_or_else(|| name.clone()),
            organization: organization.clone().or_else(|| parent.clone()).unwrap_or_else(|| name.clone()),
            parent: parent.clone(),
        });
        if rules != RuleChange::default() {
            let place = Place { account: name.clone(), ..Place::default() };
            changes.push(Change::ChangeAssociation { place, change: Box::new(rules.clone()) });
        }
    }
    Ok(Proposal { text, changes, trouble: " Problem adding accounts: " })
}

/// What is said when nothing could be added for a user.
const NOTHING_FOR_USER: &str = "Nothing added.\n\
    Make sure the accounts requested here have been added to the system/cluster. (sacctmgr add account...)\n";

#[derive(Default)]
struct NewUser {
    names: Vec<String>,
    accounts: Vec<String>,
    partitions: Vec<String>,
    default_account: Option<String>,
    default_wckey: Option<String>,
    has_wckey: bool,
    admin: Option<gpun_core::accounting::AdminLevel>,
    rules: RuleChange,
}

fn read_user(world: &World, words: &[Word]) -> Result<NewUser, Stop> {
    let mut new = NewUser::default();
    for word in words {
        if take_names(word, &mut new.names) {
        } else if word.is("accounts", 2) {
            new.accounts.extend(word.names());
        } else if word.is("adminlevel", 2) {
            let bad = || Stop::out(format!(" Bad admin level: {}\n", word.value));
            new.admin = Some(admin_level(&word.value).ok_or_else(bad)?);
        } else if word.is("clusters", 1) {
            if let Some(stop) = is_other_cluster(world, word) {
                return Err(stop);
            }
        } else if word.is("defaultaccount", 8) {
            new.default_account = word.names().into_iter().next();
        } else if word.is("defaultwckey", 8) {
            (new.default_wckey, new.has_wckey) = (word.names().into_iter().next(), true);
        } else if word.is("partitions", 4) {
            new.partitions.extend(word.value.split(',').map(str::to_owned));
        } else if word.is("wckeys", 1) {
            new.has_wckey = true;
        } else {
            match settings::rule(&world.book, word, &mut new.rules) {
                Taken::Yes => {}
                Taken::No => return Err(unknown(word)),
                Taken::Bad(text) => return Err(Stop::out(text)),
            }
        }
    }
    Ok(new)
}

fn user(world: &World, words: &[Word]) -> Result<Proposal, Stop> {
    let mut new = read_user(world, words)?;
    if new.names.is_empty() {
        return Err(Stop::err(" Need name of user to add.\n"));
    }
    new.accounts
        .extend(new.default_account.iter().filter(|one| !new.accounts.contains(one)).cloned().collect::<Vec<_>>());
    if new.accounts.is_empty() && !new.has_wckey {
        return Err(Stop::err(" Need name of account or wckey to add.\n"));
    }
    if !world.is_operator && !world.is_coordinator() {
        return Err(Stop::err(" error: Only admins/operators/coordinators can add users\n"));
    }
    let mut said = String::new();
    let (known, missing): (Vec<&String>, Vec<&String>) =
        new.accounts.iter().partition(|name| world.book.account(name).is_some());
    missing
        .iter()
        .for_each(|name| said.push_str(&format!("No account {name} on cluster {}, skipping.\n", world.cluster)));
    let mut changes = Vec::new();
    let (mut added, mut places) = (String::new(), String::new());
    let partitions: Vec<Option<String>> =
        if new.partitions.is_empty() { vec![None] } else { new.partitions.iter().cloned().map(Some).collect() };
    for name in &new.names {
        let is_new = world.book.user(name).is_none();
        let mut first = is_new;
        for account in &known {
            for partition in &partitions {
                let place =
                    Place { account: (*account).clone(), user: Some(name.clone()), partition: partition.clone() };
                if world.book.at(&place).is_some() {
                    continue;
                }
                if std::mem::take(&mut first) {
                    added.push_str(&format!("  {name}\n"));
                    changes.push(Change::AddUser { name: name.clone(), uid: None });
                }
                places.push_str(&place_line(&world.cluster, &place));
                changes.push(Change::AddAssociation { place: place.clone() });
                if new.rules != RuleChange::default() {
                    changes.push(Change::ChangeAssociation { place, change: Box::new(new.rules.clone()) });
                }
            }
        }
        let more = new.default_account.is_some() || new.admin.is_some() || new.default_wckey.is_some();
        if more && (!is_new || !first) {
            changes.push(Change::ChangeUser {
                name: name.clone(),
                uid: None,
                default_account: new.default_account.clone().filter(|account| known.contains(&account)),
                admin: new.admin,
                default_wckey: new.default_wckey.clone(),
            });
        }
    }
    if places.is_empty() {
        if missing.is_empty() {
            said.push_str("Request didn't affect anything\n");
        }
        return Err(Stop::out(format!("{said}{NOTHING_FOR_USER}")));
    }
    let mut text = said;
    if !added.is_empty() {
        text.push_str(&format!(" Adding User(s)\n{added} Settings\n"));
        if let Some(account) = &new.default_account {
            text.push_str(&format!("  Default Account = {account}\n"));
        }
        if let Some(key) = &new.default_wckey {
            text.push_str(&format!("  Default WCKey   = {key}\n"));
        }
        if let Some(level) = new.admin {
            text.push_str(&format!("  Admin Level     = {}\n", admin_name(level)));
        }
    }
    text.push_str(&format!(" Associations =\n{places}"));
    let lines = settings::rule_lines(&new.rules);
    if !lines.is_empty() {
        text.push_str(&format!(" Non Default Settings\n{lines}"));
    }
    Ok(Proposal { text, changes, trouble: " Problem adding users: " })
}

/// A user's association as changes print it.
pub(super) fn place_line(cluster: &str, place: &Place) -> String {
    let mut line = association_line(cluster, &place.account, place.user.as_deref());
    if let Some(partition) = &place.partition {
        line.truncate(line.len().saturating_sub(1));
        line.push_str(&format!(" P = {partition:<9.9}\n"));
    }
    line
}

fn qos(world: &World, words: &[Word]) -> Result<Proposal, Stop> {
    let mut names = Vec::new();
    let mut change = QosChange::default();
    for word in words {
        if take_names(word, &mut names) {
            continue;
        }
        match settings::qos(&world.book, word, &mut change) {
            Taken::Yes => {}
            Taken::No => return Err(unknown(word)),
            Taken::Bad(text) => return Err(Stop::out(text)),
        }
    }
    if names.is_empty() {
        return Err(Stop::err(" Need name of qos to add.\n"));
    }
    let new: Vec<&String> = names.iter().filter(|name| world.book.qos_named(name).is_none()).collect();
    if new.is_empty() {
        return Err(Stop::out(" Nothing new added.\n"));
    }
    let list: String = new.iter().map(|name| format!("  {name}\n")).collect();
    let description = |name: &String| change.description.clone().unwrap_or_else(|| name.clone());
    let mut text = format!(" Adding QOS(s)\n{list} Settings\n");
    if let Some(first) = new.first() {
        text.push_str(&format!("  Description    = {}\n", description(first)));
    }
    text.push_str(&settings::qos_lines(&change));
    let mut changes = Vec::new();
    for name in new {
        changes.push(Change::AddQos { name: name.clone() });
        if change != QosChange::default() {
            changes.push(Change::ChangeQos { name: name.clone(), change: Box::new(change.clone()) });
        }
    }
    Ok(Proposal { text, changes, trouble: " Problem adding QOS: " })
}

fn coordinator(world: &World, words: &[Word]) -> Result<Proposal, Stop> {
    let (mut names, mut accounts) = (Vec::new(), Vec::new());
    for word in words {
        if word.is("accounts", 2) {
            accounts.extend(word.names());
        } else if !take_names(word, &mut names) {
            return Err(unknown(word));
        }
    }
    if names.is_empty() || accounts.is_empty() {
        return Err(Stop::err(" Both users and accounts must be specified to add coordinators\n"));
    }
    if let Some(account) = accounts.iter().find(|name| world.book.account(name).is_none()) {
        return Err(Stop::err(format!(" You specified a bad account: {account}\n")));
    }
    if let Some(user) = names.iter().find(|name| world.book.user(name).is_none()) {
        return Err(Stop::err(format!(" You specified a bad user: {user}\n")));
    }
    let lines = |names: &[String]| names.iter().map(|name| format!("  {name}\n")).collect::<String>();
    let text = format!(
        " Adding Coordinator User(s)\n{} To Account(s) and all sub-accounts\n{}",
        lines(&names),
        lines(&accounts)
    );
    let pairs = accounts.iter().flat_map(|account| names.iter().map(move |user| (account.clone(), user.clone())));
    let changes = pairs.map(|(account, user)| Change::AddCoordinator { account, user }).collect();
    Ok(Proposal { text, changes, trouble: " Problem adding coordinator: " })
}
