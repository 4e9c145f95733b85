package anvil

import "syscall"

// dieWithUs has the kernel end the process when our process ends, however it ends.
func dieWithUs(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
