/* The commands of `tesup`: one function each, argv[0] is the command's name, the result is the
 * exit code. */
#ifndef TESUP_SUPERVISOR_COMMAND_CMD_H
#define TESUP_SUPERVISOR_COMMAND_CMD_H

int cmd_serve(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_topology(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

#endif
