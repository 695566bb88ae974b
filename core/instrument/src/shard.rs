//! Which part of many runs or points a process does: told, or read from the environment of an array job.

use std::fmt;
use std::str::FromStr;

/// Most parts.
const MOST_SHARDS: u32 = 1_000_000;

/// What `--shard` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardWanted {
    /// `i/n`.
    Given(Shard),
    /// `auto`, or `auto/n` where the number of parts is told.
    Auto {
        /// n.
        of: Option<u32>,
    },
}

/// A part: `index` of `of`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub index: u32,
    /// Of so many.
    pub of: u32,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for ShardWanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |text: &str| text.parse::<u32>().ok().filter(|number| (1..=MOST_SHARDS).contains(number));
        let wrong = || {
            format!(
                "`{text}` is no part: write i/n (1/4 is the first quarter, 4/4 the last), auto, or auto/n"
            )
        };
        let (which, of) = match text.split_once('/') {
            Some((which, of)) => (which, Some(number(of).ok_or_else(wrong)?)),
            None => (text, None),
        };
        if which == "auto" {
            return Ok(Self::Auto { of });
        }
        let index = number(which).ok_or_else(wrong)?;
        match of {
            Some(of) if index <= of => Ok(Self::Given(Shard { index, of })),
            _ => Err(wrong()),
        }
    }
}

impl ShardWanted {
    /// The part that is meant, by these variables of the environment. Errors are sentences.
    pub fn resolve(self, variable: impl Fn(&str) -> Option<String>) -> Result<Shard, String> {
        let of = match self {
            Self::Given(shard) => return Ok(shard),
            Self::Auto { of } => of,
        };
        let read = |name: &str| match variable(name) {
            None => Ok(None),
            Some(text) => {
                let number = text.trim().parse::<u32>();
                number.map(Some).map_err(|_| format!("--shard auto: {name} is `{text}`, which is no number"))
            }
        };
        if let Some(task) = read("SLURM_ARRAY_TASK_ID")? {
            let array = [
                read("SLURM_ARRAY_TASK_MIN")?,
                read("SLURM_ARRAY_TASK_COUNT")?,
                read("SLURM_ARRAY_TASK_STEP")?,
            ];
            return of_slurm(task, array, of);
        }
        if let Some(index) = read("JOB_COMPLETION_INDEX")? {
            let Some(of) = of.or(read("JOB_COMPLETIONS")?) else {
                return Err("--shard auto: Kubernetes tells which task this is (JOB_COMPLETION_INDEX) but not of how many: \
                            write --shard auto/N with the job's completions, or set JOB_COMPLETIONS"
                    .to_owned());
            };
            return checked(index.saturating_add(1), of, "JOB_COMPLETION_INDEX");
        }
        Err("--shard auto: this is no task of an array: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set; \
             write --shard i/n, or leave --shard out"
            .to_owned())
    }
}

/// The part of a task of Slurm. Where `of` is told, tasks are numbered from 1, and which of them are run now does not matter.
fn of_slurm(task: u32, [least, count, step]: [Option<u32>; 3], of: Option<u32>) -> Result<Shard, String> {
    if let Some(of) = of {
        return checked(task, of, "SLURM_ARRAY_TASK_ID");
    }
    let (Some(least), Some(count)) = (least, count) else {
        let message = "--shard auto: SLURM_ARRAY_TASK_ID is set but SLURM_ARRAY_TASK_MIN or SLURM_ARRAY_TASK_COUNT is not: \
                       write --shard auto/N";
        return Err(message.to_owned());
    };
    let step = step.unwrap_or(1).max(1);
    let place = task.checked_sub(least).filter(|past| past.is_multiple_of(step)).map(|past| past / step);
    let Some(place) = place.filter(|place| *place < count) else {
        return Err(format!(
            "--shard auto: task {task} of an array of {count} from {least} by {step} has gaps before it, so its part \
             cannot be told: number the tasks 1-N and write --shard auto/N"
        ));
    };
    checked(place + 1, count, "SLURM_ARRAY_TASK_ID")
}

fn checked(index: u32, of: u32, name: &str) -> Result<Shard, String> {
    if index == 0 || index > of || of > MOST_SHARDS {
        return Err(format!("--shard auto: {name} makes this part {index} of {of}; parts go from 1 to {of}"));
    }
    Ok(Shard { index, of })
}

impl Shard {
    /// Everything.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    /// Which of the points are in this part, by what each costs: neighbours stay together, and parts cost about the same.
    /// Every point is in exactly one of the `of` parts, since each goes by where its middle lies.
    pub fn points(&self, costs: &[u64]) -> Vec<usize> {
        let whole: u128 = costs.iter().map(|cost| 2 * u128::from(*cost).max(1)).sum();
        let mut before: u128 = 0;
        let mut mine = Vec::new();
        for (point, cost) in costs.iter().enumerate() {
            let cost = u128::from(*cost).max(1);
            let part = (before + cost) * u128::from(self.of) / whole;
            if part == u128::from(self.index - 1) {
                mine.push(point);
            }
            before += 2 * cost;
        }
        mine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(wanted: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let find = |name: &str| variables.iter().find(|one| one.0 == name).map(|one| one.1.to_owned());
        let wanted: ShardWanted = wanted.parse()?;
        wanted.resolve(find).map(|shard| shard.to_string())
    }

    #[test]
    fn every_point_is_in_exactly_one_part_whatever_they_cost() {
        let mut random = 1_u64;
        for points in [0, 1, 2, 3, 7, 16, 97] {
            for kind in 0..3 {
                let costs: Vec<u64> = (0..points)
                    .map(|_| {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        [0, 1_000, (random >> 40) * (random >> 40)][kind]
                    })
                    .collect();
                for of in (1..=points as u32 + 3).chain([1_000]) {
                    let mut seen = vec![0; points];
                    for index in 1..=of {
                        let mine = Shard { index, of }.points(&costs);
                        assert!(mine.windows(2).all(|two| two[0] + 1 == two[1]), "neighbours");
                        mine.into_iter().for_each(|point| seen[point] += 1);
                    }
                    assert!(seen.iter().all(|times| *times == 1), "{points} points, {of} parts: {seen:?}");
                }
            }
        }
    }

    #[test]
    fn equal_points_make_equal_parts_and_heavy_ones_lone_parts() {
        let sizes = |costs: &[u64], of| -> Vec<usize> {
            (1..=of).map(|index| Shard { index, of }.points(costs).len()).collect()
        };
        assert_eq!(sizes(&[5; 12], 4), [3, 3, 3, 3]);
        assert_eq!(sizes(&[5; 10], 4).iter().sum::<usize>(), 10);
        assert!(sizes(&[5; 10], 4).iter().all(|size| (2..=3).contains(size)));
        assert_eq!(sizes(&[30, 10, 10, 10], 2), [1, 3]);
        assert_eq!(Shard::WHOLE.points(&[1, 2, 3]), [0, 1, 2]);
    }

    #[test]
    fn parts_are_read_and_what_is_none_is_refused() {
        assert_eq!("2/4".parse(), Ok(ShardWanted::Given(Shard { index: 2, of: 4 })));
        assert_eq!("auto".parse(), Ok(ShardWanted::Auto { of: None }));
        assert_eq!("auto/9".parse(), Ok(ShardWanted::Auto { of: Some(9) }));
        for wrong in ["", "3", "0/4", "5/4", "1/0", "a/4", "auto/0", "1/1000001", "1/2/3", "-1/2"] {
            let said = wrong.parse::<ShardWanted>().unwrap_err();
            assert!(said.contains("write i/n"), "{wrong}: {said}");
        }
    }

    #[test]
    fn slurm_tells_task_count_least_and_step() {
        let array = |id: &'static str, least: &'static str, count: &'static str, step: &'static str| {
            let names = [
                ("SLURM_ARRAY_TASK_ID", id),
                ("SLURM_ARRAY_TASK_MIN", least),
                ("SLURM_ARRAY_TASK_COUNT", count),
                ("SLURM_ARRAY_TASK_STEP", step),
            ];
            names.into_iter().filter(|one| !one.1.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(auto("auto", &array("0", "0", "4", "1")), Ok("1/4".into()));
        assert_eq!(auto("auto", &array("4", "1", "4", "1")), Ok("4/4".into()));
        assert_eq!(auto("auto", &array("10", "2", "5", "4")), Ok("3/5".into()));
        assert_eq!(auto("auto", &array("3", "1", "4", "")), Ok("3/4".into()));
        // Two of the tasks of an array again: which part they are is known only where the number of parts is told.
        assert!(auto("auto", &array("7", "2", "2", "1")).unwrap_err().contains("has gaps before it"));
        assert_eq!(auto("auto/12", &array("7", "2", "2", "1")), Ok("7/12".into()));
        assert!(auto("auto/4", &array("5", "", "", "")).unwrap_err().contains("part 5 of 4"));
        assert!(auto("auto/4", &array("0", "", "", "")).unwrap_err().contains("part 0 of 4"));
        assert!(auto("auto", &array("1", "", "", "")).unwrap_err().contains("write --shard auto/N"));
        assert!(auto("auto", &array("x", "1", "2", "1")).unwrap_err().contains("is `x`, which is no number"));
    }

    #[test]
    fn kubernetes_tells_the_index_from_0_and_must_be_told_the_count() {
        let index = ("JOB_COMPLETION_INDEX", "3");
        assert_eq!(auto("auto/4", &[index]), Ok("4/4".into()));
        assert_eq!(auto("auto", &[index, ("JOB_COMPLETIONS", "8")]), Ok("4/8".into()));
        assert!(auto("auto", &[index]).unwrap_err().contains("set JOB_COMPLETIONS"));
        assert!(auto("auto/3", &[index]).unwrap_err().contains("part 4 of 3"));
        assert!(auto("auto", &[]).unwrap_err().contains("neither SLURM_ARRAY_TASK_ID nor"));
        assert_eq!(auto("2/3", &[index]), Ok("2/3".into()), "what is told goes first");
    }
}
