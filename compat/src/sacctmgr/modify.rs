//! `modify` and `update`.

use std::collections::BTreeSet;

use gpun_core::accounting::{Association, Book, Change, Limits, QosChange, RuleChange, change::Place};

use super::{
    Proposal, Stop, World,
    add::{place_line, unknown},
    association_line,
    settings::{self, Taken},
    show::{admin_level, qos_names},
    words::{Clauses, Entity, Word, clauses, entity, unknown_condition},
};

/// What is said where nothing was meant.
fn nothing_affected() -> Stop {
    Stop::err(
        "sacctmgr: error: Request didn't affect anything\n Error with request: Data has not changed since time specified\n",
    )
}

fn nothing_modified() -> Stop {
    Stop::out(" Nothing modified\n")
}

/// What a `modify` would do.
///
/// # Errors
/// What is to be printed instead.
pub fn modify(world: &World, words: &[String]) -> Result<Proposal, Stop> {
    let Some(what) = words.first().and_then(|word| entity(word)) else { return Err(no_entity()) };
    let clauses = clauses(words.get(1..).unwrap_or_default());
    match what {
        Entity::Account => account(world, &clauses),
        Entity::User => user(world, &clauses),
        Entity::Qos => qos(world, &clauses),
        Entity::Cluster => cluster(world, &clauses),
        Entity::Job | Entity::Resource | Entity::Federation => Err(Stop::err(
            "sacctmgr: error: gpunion keeps accounts, users, associations and qualities of service only\n",
        )),
        _ => Err(no_entity()),
    }
}

fn no_entity() -> Stop {
    Stop::err(
        "No valid entity in modify command\n\
         Input line must include \"Account\", \"Cluster\", \"Federation\", \"Job\",\n\
         \"QOS\", \"Resource\", or \"User\"\n",
    )
}

fn unknown_set(word: &Word) -> Stop {
    let tail = " Use keyword 'where' to modify condition\n";
    Stop::out(format!(" Unknown option: {}\n{tail}", word.text))
}

/// Which associations are meant.
#[derive(Debug, Default)]
pub(super) struct Condition {
    pub names: Vec<String>,
    pub accounts: Vec<String>,
    pub users: Vec<String>,
    pub partitions: Vec<String>,
    pub parents: Vec<String>,
    pub descriptions: Vec<String>,
    pub organizations: Vec<String>,
    pub default_accounts: Vec<String>,
    pub other_cluster: bool,
}

impl Condition {
    pub fn read(world: &World, words: &[Word]) -> Result<Self, Stop> {
        let mut all = Self::default();
        for word in words {
            let names = word.names();
            if word.key.is_empty() {
                all.names.extend(names);
            } else if word.is("clusters", 1) {
                all.other_cluster |= !names.contains(&world.cluster.to_lowercase());
            } else if word.is("names", 1) {
                all.names.extend(names);
            } else if word.is("accounts", 2) || word.is("acct", 4) {
                all.accounts.extend(names);
            } else if word.is("users", 1) {
                all.users.extend(names);
            } else if word.is("partitions", 4) {
                all.partitions.extend(names);
            } else if word.is("parents", 1) {
                all.parents.extend(names);
            } else if word.is("description", 3) {
                all.descriptions.extend(names);
            } else if word.is("organization", 1) {
                all.organizations.extend(names);
            } else if word.is("defaultaccount", 8) {
                all.default_accounts.extend(names);
            } else {
                return Err(unknown_condition(word));
            }
        }
        Ok(all)
    }

    pub fn is_empty(&self) -> bool {
        let lists = [
            &self.names,
            &self.accounts,
            &self.users,
            &self.partitions,
            &self.parents,
            &self.descriptions,
            &self.organizations,
            &self.default_accounts,
        ];
        lists.into_iter().all(Vec::is_empty)
    }
}

fn any(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == name)
}

fn account(world: &World, clauses: &Clauses) -> Result<Proposal, Stop> {
    let condition = Condition::read(world, &clauses.condition)?;
    let (mut description, mut organization, mut parent) = (None, None, None);
    let mut rules = RuleChange::default();
    for word in &clauses.set {
        if word.is("description", 3) {
            description = Some(word.value.clone());
        } else if word.is("organization", 1) {
            organization = Some(word.value.clone());
        } else if word.is("parents", 1) && !word.is("partition", 4) {
            parent = word.names().into_iter().next();
        } else {
            match settings::rule(&world.book, word, &mut rules) {
                Taken::Yes => {}
                Taken::No => return Err(unknown_set(word)),
                Taken::Bad(text) => return Err(Stop::out(text)),
            }
        }
    }
    let of_record = description.is_some() || organization.is_some();
    let of_association = parent.is_some() || rules != RuleChange::default();
    if !of_record && !of_association {
        return Err(Stop::err(" You didn't give me anything to set\n"));
    }
    let book = &world.book;
    let meant: Vec<&str> = book
        .accounts()
        .filter(|one| {
            any(&condition.names, &one.name)
                && any(&condition.accounts, &one.name)
                && any(&condition.parents, one.parent.as_deref().unwrap_or_default())
                && any(&condition.descriptions, &one.description.to_lowercase())
                && any(&condition.organizations, &one.organization.to_lowercase())
                && !condition.other_cluster
        })
        .map(|one| one.name.as_str())
        .collect();
    if meant.is_empty() {
        return Err(nothing_affected());
    }
    if let Some(parent) = parent.as_ref().filter(|parent| book.account(parent).is_none()) {
        return Err(Stop::err(format!(" error: No parent account '{parent}' on cluster '{}'\n", world.cluster)));
    }
    let mut changes = Vec::new();
    for name in &meant {
        if of_record || parent.is_some() {
            changes.push(Change::ChangeAccount {
                name: (*name).to_owned(),
                description: description.clone(),
                organization: organization.clone(),
                parent: parent.clone(),
            });
        }
        if rules != RuleChange::default() {
            let place = Place { account: (*name).to_owned(), ..Place::default() };
            changes.push(Change::ChangeAssociation { place, change: Box::new(rules.clone()) });
        }
    }
    let mut text = String::new();
    if of_record {
        text.push_str(&format!(" Modified accounts...\n{}", lines(&meant)));
    }
    if of_association {
        text.push_str(&format!(" Modified account associations...\n{}", touched_accounts(world, &changes, &meant)));
    }
    Ok(Proposal { text, changes, trouble: " Error with request: " })
}

fn lines(names: &[&str]) -> String {
    names.iter().map(|name| format!("  {name}\n")).collect()
}

/// What of an association those who look at it see.
type Sight = (Limits, Vec<String>, Option<String>);

fn sight(book: &Book, one: &Association) -> Sight {
    let default = book.default_qos_of(one).and_then(|id| book.qos(id)).map(|qos| qos.name.clone());
    (book.limits_of(one), qos_names(book, &book.qos_of(one)), default)
}

/// The associations of the accounts, each followed by those below it for which the change is felt.
fn touched_accounts(world: &World, changes: &[Change], meant: &[&str]) -> String {
    let mut after = world.book.clone();
    // A change that the controller refuses is told by the controller.
    let _ = changes.iter().try_for_each(|change| after.change(change));
    let mut out = String::new();
    let mut told = BTreeSet::new();
    for name in meant {
        let parent = world.book.account(name).and_then(|one| one.parent.as_deref()).unwrap_or_default();
        let of = if parent.is_empty() { String::new() } else { format!(" of {parent}") };
        out.push_str(&format!("  C = {:<10.10} A = {name}{of}\n", world.cluster));
        for account in world.book.below(name) {
            for one in world.book.associations_in(account) {
                let itself = one.user.is_none() && account == *name;
                let felt = after.association(one.id).is_some_and(|new| sight(&after, new) != sight(&world.book, one));
                if !itself && felt && told.insert(one.id) {
                    out.push_str(&association_line(&world.cluster, account, one.user.as_deref()));
                }
            }
        }
    }
    out
}

fn user(world: &World, clauses: &Clauses) -> Result<Proposal, Stop> {
    let condition = Condition::read(world, &clauses.condition)?;
    let (mut admin, mut default_account, mut default_wckey) = (None, None, None);
    let mut rules = RuleChange::default();
    for word in &clauses.set {
        if word.is("adminlevel", 2) {
            let bad = || Stop::out(format!(" Bad admin level: {}\n", word.value));
            admin = Some(admin_level(&word.value).ok_or_else(bad)?);
        } else if word.is("defaultaccount", 8) {
            default_account = word.names().into_iter().next();
        } else if word.is("defaultwckey", 8) {
            default_wckey = word.names().into_iter().next();
        } else {
            match settings::rule(&world.book, word, &mut rules) {
                Taken::Yes => {}
                Taken::No => return Err(unknown_set(word)),
                Taken::Bad(text) => return Err(Stop::out(text)),
            }
        }
    }
    let of_user = admin.is_some() || default_account.is_some() || default_wckey.is_some();
    let of_association = rules != RuleChange::default();
    if !of_user && !of_association {
        return Err(Stop::err(" You didn't give me anything to set\n"));
    }
    let book = &world.book;
    let names: Vec<&String> = condition.names.iter().chain(&condition.users).collect();
    let meant: Vec<&str> = book
        .users()
        .filter(|one| names.is_empty() || names.contains(&&one.name))
        .filter(|one| any(&condition.default_accounts, one.default_account.as_deref().unwrap_or_default()))
        .filter(|_| !condition.other_cluster)
        .map(|one| one.name.as_str())
        .collect();
    let mut changes = Vec::new();
    let mut text = String::new();
    if of_user {
        let has = |user: &str, account: &String| book.associations_of(user).any(|one| one.account == *account);
        let users: Vec<&str> =
            meant.iter().copied().filter(|user| default_account.as_ref().is_none_or(|one| has(user, one))).collect();
        if users.is_empty() && !of_association {
            return Err(nothing_modified());
        }
        text.push_str(&format!(" Modified users...\n{}", lines(&users)));
        changes.extend(users.iter().map(|name| Change::ChangeUser {
            name: (*name).to_owned(),
            uid: None,
            default_account: default_account.clone(),
            admin,
            default_wckey: default_wckey.clone(),
        }));
    }
    if of_association {
        let places = user_places(book, &meant, &condition);
        if places.is_empty() {
            return Err(nothing_affected());
        }
        text.push_str(" Modified user associations...\n");
        for place in places {
            text.push_str(&place_line(&world.cluster, &place));
            changes.push(Change::ChangeAssociation { place, change: Box::new(rules.clone()) });
        }
    }
    Ok(Proposal { text, changes, trouble: " Error with request: " })
}

/// Associations of users that a condition lets through, in the order in which lists show them.
pub(super) fn user_places(book: &Book, users: &[&str], condition: &Condition) -> Vec<Place> {
    let meant = |one: &Association| {
        one.user.as_deref().is_some_and(|user| users.contains(&user))
            && any(&condition.accounts, &one.account)
            && (condition.partitions.is_empty()
                || one.partition.as_ref().is_some_and(|partition| condition.partitions.contains(partition)))
    };
    let tree = book.tree();
    let found = tree.iter().map(|(_, one)| one).filter(|one| meant(one));
    found
        .map(|one| Place { account: one.account.clone(), user: one.user.clone(), partition: one.partition.clone() })
        .collect()
}

fn qos(world: &World, clauses: &Clauses) -> Result<Proposal, Stop> {
    let mut names = Vec::new();
    for word in &clauses.condition {
        if word.key.is_empty() || word.is("names", 1) {
            names.extend(word.names());
        } else {
            return Err(unknown_condition(word));
        }
    }
    let mut change = QosChange::default();
    for word in &clauses.set {
        match settings::qos(&world.book, word, &mut change) {
            Taken::Yes => {}
            Taken::No => return Err(unknown_set(word)),
            Taken::Bad(text) => return Err(Stop::out(text)),
        }
    }
    if change == QosChange::default() {
        return Err(Stop::err(" You didn't give me anything to set\n"));
    }
    let meant: Vec<&str> = world.book.all_qos().map(|one| one.name.as_str()).filter(|name| any(&names, name)).collect();
    if meant.is_empty() {
        return Err(nothing_affected());
    }
    let changes = meant
        .iter()
        .map(|name| Change::ChangeQos { name: (*name).to_owned(), change: Box::new(change.clone()) })
        .collect();
    Ok(Proposal { text: format!(" Modified qos...\n{}", lines(&meant)), changes, trouble: " Error with request: " })
}

/// Settings of the cluster are those of the root account.
fn cluster(world: &World, clauses: &Clauses) -> Result<Proposal, Stop> {
    let condition = Condition::read(world, &clauses.condition)?;
    let mut rules = RuleChange::default();
    for word in &clauses.set {
        match settings::rule(&world.book, word, &mut rules) {
            Taken::Yes => {}
            Taken::No => return Err(unknown(word)),
            Taken::Bad(text) => return Err(Stop::out(text)),
        }
    }
    if rules == RuleChange::default() {
        return Err(Stop::err(" You didn't give me anything to set\n"));
    }
    if condition.other_cluster || !any(&condition.names, &world.cluster.to_lowercase()) || !world.book.is_founded() {
        return Err(nothing_affected());
    }
    let place = Place { account: gpun_core::accounting::ROOT.to_owned(), ..Place::default() };
    let text = format!(
        " Setting\n  Default Limits:\n{} Modified cluster...\n  {}\n",
        settings::rule_lines(&rules),
        world.cluster
    );
    let changes = vec![Change::ChangeAssociation { place, change: Box::new(rules) }];
    Ok(Proposal { text, changes, trouble: " Error with request: " })
}
