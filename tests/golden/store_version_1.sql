-- A database written by version 1 of the store. After migration it must still return the same data.
PRAGMA application_id = 1633904231;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE attempts (
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  state INTEGER NOT NULL,
  worker TEXT NOT NULL REFERENCES workers (worker),
  epoch INTEGER NOT NULL,
  lease_id TEXT NOT NULL UNIQUE,
  fencing_token INTEGER NOT NULL UNIQUE,
  expires_s REAL NOT NULL,
  start_s REAL NOT NULL,
  end_s REAL,
  message TEXT NOT NULL DEFAULT '',
  out_of_memory BLOB,
  PRIMARY KEY (job, number)
) STRICT;
INSERT INTO "attempts" VALUES(1,1,3,'workers/a',1,'lease-1-3f0772e3c4bc595b',1,30.0,20.0,23.0,'',NULL);
INSERT INTO "attempts" VALUES(2,1,8,'workers/a',1,'lease-2-868745296d49018b',2,40.0,30.0,41.0,'the worker did not renew its lease',NULL);
INSERT INTO "attempts" VALUES(2,2,3,'workers/b',1,'lease-3-ebdf24aa1b314493',3,52.0,42.0,43.0,'',NULL);
INSERT INTO "attempts" VALUES(3,1,4,'workers/a',1,'lease-4-fae69761c97d307b',4,60.0,50.0,51.0,'too much',X'4063');
INSERT INTO "attempts" VALUES(4,1,5,'workers/a',1,'lease-5-a1743d23c9cd2bf0',5,62.0,52.0,53.0,'broke',NULL);
INSERT INTO "attempts" VALUES(5,1,6,'workers/a',1,'lease-6-40462e11aa726ef6',6,64.0,54.0,55.0,'hung',NULL);
INSERT INTO "attempts" VALUES(6,1,2,'workers/a',1,'lease-7-4bc43dd5d7f4b01c',7,70.0,60.0,NULL,'',NULL);
INSERT INTO "attempts" VALUES(7,1,7,'workers/b',1,'lease-8-9274509cf4ce689f',8,71.0,61.0,62.0,'stopping',NULL);
INSERT INTO "attempts" VALUES(9,1,2,'workers/b',1,'lease-9-88db662e122eb018',9,74.0,64.0,NULL,'',NULL);
CREATE TABLE calibrations (
  study INTEGER PRIMARY KEY REFERENCES studies (id) ON DELETE CASCADE,
  device_overhead_bytes INTEGER NOT NULL,
  result BLOB NOT NULL
) STRICT;
INSERT INTO "calibrations" VALUES(1,4096,X'0A0911000000000000C03F');
CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "counters" VALUES('change',33);
INSERT INTO "counters" VALUES('fencing_token',9);
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  study INTEGER NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  trial INTEGER NOT NULL,
  ranks INTEGER NOT NULL,
  state INTEGER NOT NULL,
  message TEXT NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0,
  losses INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  job BLOB NOT NULL,
  UNIQUE (study, trial)
) STRICT;
INSERT INTO "jobs" VALUES(1,1,0,2,3,'',1,0,2,X'0A15737475646965732F312F63616C6962726174696F6E18022203637075320911000000000000F03F');
INSERT INTO "jobs" VALUES(2,1,1,1,3,'',2,1,2,X'0A12737475646965732F312F747269616C732F31180122036370752A023005');
INSERT INTO "jobs" VALUES(3,1,2,2,4,'too much',1,0,2,X'0A12737475646965732F312F747269616C732F32180222036370752A023005');
INSERT INTO "jobs" VALUES(4,1,3,4,5,'broke',1,0,2,X'0A12737475646965732F312F747269616C732F33180422036370752A023005');
INSERT INTO "jobs" VALUES(5,1,4,4,6,'hung',1,0,2,X'0A12737475646965732F312F747269616C732F34180422036370752A023005');
INSERT INTO "jobs" VALUES(6,1,5,3,2,'',1,0,2,X'0A12737475646965732F312F747269616C732F35180322036370752A023005');
INSERT INTO "jobs" VALUES(7,1,6,1,1,'the worker gave it back',1,0,2,X'0A12737475646965732F312F747269616C732F36180122036370752A023005');
INSERT INTO "jobs" VALUES(8,1,7,8,1,'',0,0,2,X'0A12737475646965732F312F747269616C732F37180822036370752A0230054001');
INSERT INTO "jobs" VALUES(9,2,1,1,7,'cancelled',1,0,2,X'0A12737475646965732F322F747269616C732F31180122036370752A023005');
CREATE TABLE measurements (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  median_step_time_s REAL NOT NULL,
  device_s REAL NOT NULL,
  build_id TEXT NOT NULL,
  device_fingerprint TEXT NOT NULL,
  measurement BLOB NOT NULL,
  PRIMARY KEY (job, attempt),
  FOREIGN KEY (job, attempt) REFERENCES attempts (job, number) ON DELETE CASCADE
) STRICT;
INSERT INTO "measurements" VALUES(2,2,0.5,7.0,'','',X'0A08000000000000E03F11000000000000E03F690000000000001C40');
CREATE TABLE refused_reports (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  received_s REAL NOT NULL,
  worker TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  lease_id TEXT NOT NULL,
  fencing_token INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  outcome INTEGER NOT NULL,
  reason TEXT NOT NULL
) STRICT;
INSERT INTO "refused_reports" VALUES(1,65.0,'workers/b',0,'lease-none',0,0,'x',3,'there is no lease lease-none');
CREATE TABLE requests (
  request_id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "requests" VALUES('first','create_study','1');
INSERT INTO "requests" VALUES('lease-1-3f0772e3c4bc595b/report','report','lease-1-3f0772e3c4bc595b');
INSERT INTO "requests" VALUES('lease-3-ebdf24aa1b314493/report','report','lease-3-ebdf24aa1b314493');
INSERT INTO "requests" VALUES('lease-4-fae69761c97d307b/report','report','lease-4-fae69761c97d307b');
INSERT INTO "requests" VALUES('lease-5-a1743d23c9cd2bf0/report','report','lease-5-a1743d23c9cd2bf0');
INSERT INTO "requests" VALUES('lease-6-40462e11aa726ef6/report','report','lease-6-40462e11aa726ef6');
INSERT INTO "requests" VALUES('lease-8-9274509cf4ce689f/report','report','lease-8-9274509cf4ce689f');
INSERT INTO "requests" VALUES('second','create_study','2');
CREATE TABLE studies (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fingerprint TEXT NOT NULL,
  state INTEGER NOT NULL,
  change INTEGER NOT NULL,
  next_trial INTEGER NOT NULL DEFAULT 1,
  wall_s REAL NOT NULL DEFAULT 0,
  plan_cpu_s REAL NOT NULL DEFAULT 0,
  study BLOB NOT NULL
) STRICT;
INSERT INTO "studies" VALUES(1,'first',2,33,8,0.0,0.0,X'12080A060A0474696E79180232056669727374390000000000002640');
INSERT INTO "studies" VALUES(2,'second',6,32,2,0.0,0.0,X'12080A060A0474696E79180632067365636F6E64390000000000002640');
CREATE TABLE trial_logs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  text TEXT NOT NULL,
  FOREIGN KEY (job, attempt) REFERENCES attempts (job, number) ON DELETE CASCADE
) STRICT;
INSERT INTO "trial_logs" VALUES(1,2,1,'a line
');
CREATE TABLE trials (
  study INTEGER NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  plan_text TEXT NOT NULL,
  repeat INTEGER NOT NULL,
  state INTEGER NOT NULL,
  message TEXT NOT NULL DEFAULT '',
  change INTEGER NOT NULL,
  trial BLOB NOT NULL,
  PRIMARY KEY (study, number),
  UNIQUE (study, plan_text, repeat)
) STRICT;
INSERT INTO "trials" VALUES(1,1,'tp=1',0,3,'',10,X'1A0474703D312001');
INSERT INTO "trials" VALUES(1,2,'tp=2',0,4,'too much',13,X'1A0474703D322001');
INSERT INTO "trials" VALUES(1,3,'tp=4',0,5,'broke',16,X'1A0474703D342001');
INSERT INTO "trials" VALUES(1,4,'tp=4,mbs=2',0,6,'hung',19,X'1A0A74703D342C6D62733D322001');
INSERT INTO "trials" VALUES(1,5,'mbs=4',0,2,'',21,X'1A056D62733D342001');
INSERT INTO "trials" VALUES(1,6,'mbs=8',0,1,'the worker gave it back',24,X'1A056D62733D382001');
INSERT INTO "trials" VALUES(1,7,'mbs=16',0,1,'',25,X'1A066D62733D31362001');
INSERT INTO "trials" VALUES(2,1,'tp=1',0,7,'cancelled',31,X'1A0474703D312001');
CREATE TABLE workers (
  worker TEXT PRIMARY KEY,
  boot_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  active INTEGER NOT NULL,
  slots INTEGER NOT NULL,
  registered_s REAL NOT NULL,
  inventory BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "workers" VALUES('workers/a','boot',1,1,8,10.0,X'0A06686F73742D6112036370752008');
INSERT INTO "workers" VALUES('workers/b','boot',1,1,8,10.0,X'12036370752008');
CREATE INDEX studies_by_fingerprint ON studies (fingerprint);
CREATE INDEX studies_by_state ON studies (state);
CREATE INDEX trials_by_change ON trials (study, change);
CREATE INDEX jobs_by_state ON jobs (state, id);
CREATE INDEX attempts_by_state ON attempts (state, expires_s);
CREATE INDEX trial_logs_by_attempt ON trial_logs (job, attempt);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('studies',2);
INSERT INTO "sqlite_sequence" VALUES('jobs',9);
INSERT INTO "sqlite_sequence" VALUES('trial_logs',1);
INSERT INTO "sqlite_sequence" VALUES('refused_reports',1);
COMMIT;
