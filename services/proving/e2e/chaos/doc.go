// Package chaos holds the tests of the chaos run itself (make chaos, package
// svc.internal/services/proving/internal/chaos): that it would notice. Each
// fault that can be planted in the marketplace must make a short run fail, and
// by the auditor's verdict. They skip under -short.
package chaos
